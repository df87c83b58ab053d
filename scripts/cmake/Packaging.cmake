# What is installed, and the Debian package (cpack -G DEB). The data that programs read lies under share/misfire as it lies in
# the source tree: harness/files.hpp looks for <program>/../share/misfire.

set(misfire_data ${CMAKE_INSTALL_DATADIR}/misfire)
install(DIRECTORY suites results DESTINATION ${misfire_data} FILES_MATCHING PATTERN "*.json")
install(FILES results/schema.md DESTINATION ${misfire_data}/results)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS misfire misfire-dataloader misfire-micro DESTINATION ${CMAKE_INSTALL_BINDIR})

set(CPACK_PACKAGE_NAME misfire)
set(CPACK_PACKAGE_CONTACT "The Misfire authors")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "lomiri-wallpapers, mate-backgrounds")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
include(CPack)
