# Toolchain: cross build for aarch64 on Debian and Ubuntu, tests under user-mode emulation. scripts/cross-aarch64 fetches what
# MISFIRE_AARCH64_ROOT holds, the libraries of the other architecture; the C and C++ libraries are the cross compiler's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

set(MISFIRE_AARCH64_ROOT "" CACHE PATH "Folder with the aarch64 libraries, unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES MISFIRE_AARCH64_ROOT)
set(CMAKE_FIND_ROOT_PATH ${MISFIRE_AARCH64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${MISFIRE_AARCH64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${MISFIRE_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${MISFIRE_AARCH64_ROOT}/usr/share/pkgconfig)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${MISFIRE_AARCH64_ROOT}/usr/include/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${MISFIRE_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu")

set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${MISFIRE_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu
  -E HWLOC_PLUGINS_PATH=${MISFIRE_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/hwloc)
