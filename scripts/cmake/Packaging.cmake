# What is installed beside the programs, which their folders install, and the packages that cpack makes. The data that
# programs read
# lies under share/misfire as it lies in the source tree: harness/files.hpp looks for <program>/../share/misfire.

install(DIRECTORY suites results DESTINATION ${CMAKE_INSTALL_DATADIR}/misfire FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Completions come from the program's own tables, so the program writes them, once it is built (as its manual pages, suites/cli).
if(NOT CMAKE_CROSSCOMPILING)
  set(completions ${PROJECT_BINARY_DIR}/completions)
  file(MAKE_DIRECTORY ${completions})
  add_custom_command(OUTPUT ${completions}/misfire.bash ${completions}/_misfire ${completions}/misfire.fish
    COMMAND misfire completion bash > ${completions}/misfire.bash
    COMMAND misfire completion zsh > ${completions}/_misfire
    COMMAND misfire completion fish > ${completions}/misfire.fish
    DEPENDS misfire VERBATIM)
  add_custom_target(completions ALL DEPENDS ${completions}/misfire.bash)
  install(FILES ${completions}/misfire.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME misfire)
  install(FILES ${completions}/_misfire DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${completions}/misfire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

set(CPACK_PACKAGE_CONTACT "The Misfire authors")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libhwloc-plugins, lomiri-wallpapers, mate-backgrounds")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
