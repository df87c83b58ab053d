# Images: JPEG decoding, crops, and the data set made from photographs. Sets images_sources and images_headers.
set(images_sources
  ${CMAKE_CURRENT_LIST_DIR}/crop.cpp
  ${CMAKE_CURRENT_LIST_DIR}/jpeg.cpp
  ${CMAKE_CURRENT_LIST_DIR}/photographs.cpp
  ${CMAKE_CURRENT_LIST_DIR}/resize.cpp
  ${CMAKE_CURRENT_LIST_DIR}/synthetic.cpp)
set(images_headers
  ${CMAKE_CURRENT_LIST_DIR}/crop.hpp
  ${CMAKE_CURRENT_LIST_DIR}/jpeg.hpp
  ${CMAKE_CURRENT_LIST_DIR}/photographs.hpp
  ${CMAKE_CURRENT_LIST_DIR}/resize.hpp
  ${CMAKE_CURRENT_LIST_DIR}/synthetic.hpp)
# The resampling loops want the vectoriser at full strength whatever the build type asks for elsewhere.
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/resize.cpp PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O3>)
