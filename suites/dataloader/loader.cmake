# The loader: sampler, schedule, workers, batch memory. Sets loader_sources and loader_headers.
set(loader_sources
  ${CMAKE_CURRENT_LIST_DIR}/death.cpp
  ${CMAKE_CURRENT_LIST_DIR}/loader.cpp
  ${CMAKE_CURRENT_LIST_DIR}/process_pool.cpp
  ${CMAKE_CURRENT_LIST_DIR}/sampler.cpp
  ${CMAKE_CURRENT_LIST_DIR}/schedule.cpp
  ${CMAKE_CURRENT_LIST_DIR}/segment.cpp
  ${CMAKE_CURRENT_LIST_DIR}/thread_pool.cpp
  ${CMAKE_CURRENT_LIST_DIR}/worker.cpp)
set(loader_headers
  ${CMAKE_CURRENT_LIST_DIR}/death.hpp
  ${CMAKE_CURRENT_LIST_DIR}/loader.hpp
  ${CMAKE_CURRENT_LIST_DIR}/pool.hpp
  ${CMAKE_CURRENT_LIST_DIR}/sampler.hpp
  ${CMAKE_CURRENT_LIST_DIR}/schedule.hpp
  ${CMAKE_CURRENT_LIST_DIR}/segment.hpp
  ${CMAKE_CURRENT_LIST_DIR}/worker.hpp)
