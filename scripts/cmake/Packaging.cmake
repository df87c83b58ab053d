# What is installed beside the programs, which their folders install, and the packages that cpack makes. The data that programs read
# lies under share/misfire as it lies in the source tree: harness/files.hpp looks for <program>/../share/misfire.

install(DIRECTORY suites results DESTINATION ${CMAKE_INSTALL_DATADIR}/misfire FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The man page and the completions come from the program's own tables, so the program writes them, once it is built.
if(TARGET misfire AND NOT CMAKE_CROSSCOMPILING)
  set(written ${PROJECT_BINARY_DIR}/written)
  file(MAKE_DIRECTORY ${written})
  add_custom_command(OUTPUT ${written}/misfire.1 ${written}/misfire.bash ${written}/_misfire ${written}/misfire.fish
    COMMAND misfire man > ${written}/misfire.1
    COMMAND misfire completion bash > ${written}/misfire.bash
    COMMAND misfire completion zsh > ${written}/_misfire
    COMMAND misfire completion fish > ${written}/misfire.fish
    DEPENDS misfire VERBATIM)
  add_custom_target(written ALL DEPENDS ${written}/misfire.1)
  install(FILES ${written}/misfire.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${written}/misfire.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME misfire)
  install(FILES ${written}/_misfire DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${written}/misfire.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
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
