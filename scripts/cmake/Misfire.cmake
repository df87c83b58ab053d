# misfire_option(NAME DESCRIPTION)
# An AUTO / ON / OFF cache entry MISFIRE_WITH_<NAME>: AUTO uses what is found, ON fails when it is missing, OFF does not look.
function(misfire_option name description)
  set(MISFIRE_WITH_${name} AUTO CACHE STRING "${description} (AUTO, ON, OFF)")
  set_property(CACHE MISFIRE_WITH_${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT MISFIRE_WITH_${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "MISFIRE_WITH_${name} is '${MISFIRE_WITH_${name}}': use AUTO, ON or OFF")
  endif()
endfunction()

# misfire_resolve(NAME FOUND WHY)
# Turns MISFIRE_WITH_<NAME> and whether it was found into MISFIRE_HAVE_<NAME> (0 or 1) in the caller, and says which.
function(misfire_resolve name found why)
  if(MISFIRE_WITH_${name} STREQUAL "OFF")
    set(have 0)
    set(text "off (asked)")
  elseif(found)
    set(have 1)
    set(text "on (${why})")
  elseif(MISFIRE_WITH_${name} STREQUAL "ON")
    message(FATAL_ERROR "MISFIRE_WITH_${name}=ON, but it was not found: install it or set AUTO")
  else()
    set(have 0)
    set(text "off (not found)")
  endif()
  message(STATUS "Misfire: ${name} ${text}")
  set(MISFIRE_HAVE_${name} ${have} PARENT_SCOPE)
endfunction()

# misfire_library(ROOM SOURCES ... HEADERS ... [LINK ...] [PRIVATE_LINK ...])
# The library of one room, misfire_<room> with the alias misfire::<room>; its headers are a file set, each compiled alone by
# the target all_verify_interface_header_sets.
function(misfire_library room)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;LINK;PRIVATE_LINK" ${ARGN})
  add_library(misfire_${room} STATIC ${ARG_SOURCES})
  add_library(misfire::${room} ALIAS misfire_${room})
  target_sources(misfire_${room} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  target_include_directories(misfire_${room} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(misfire_${room} PUBLIC ${ARG_LINK} PRIVATE misfire_build ${ARG_PRIVATE_LINK})
  target_compile_features(misfire_${room} PUBLIC cxx_std_20)
  set_target_properties(misfire_${room} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

# The scenarios: every folder of suites/ that holds failures.
function(misfire_scenarios result)
  file(GLOB folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/suites/*/failures)
  set(names "")
  foreach(folder IN LISTS folders)
    cmake_path(GET folder PARENT_PATH folder)
    cmake_path(GET folder FILENAME name)
    list(APPEND names ${name})
  endforeach()
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

# Labels of tests: the kind, where it runs, and the scenario. ctest -L takes a pattern, so that no label may be part of another.
#   unit, conformance     what the sanitizer presets run
#   fuzz                  readers given hostile files
#   cli, golden, tidy     the driver's commands, approved output, the rules of the source tree and its scripts
#   scenario, failure     a scenario's workloads and metrics, one named failure reproduced
#   cross                 another architecture under emulation
#   cpu or gpu            exactly one on every test
#   slow, timing, cluster only when asked for (scripts/test --all): minutes, an idle machine, several machines
set(misfire_labels unit conformance fuzz cli golden tidy scenario failure cross cpu gpu slow timing cluster)
misfire_scenarios(misfire_scenario_names)
list(APPEND misfire_labels ${misfire_scenario_names})
foreach(label IN LISTS misfire_labels)
  foreach(other IN LISTS misfire_labels)
    string(FIND ${other} ${label} position)
    if(NOT label STREQUAL other AND NOT position EQUAL -1)
      message(FATAL_ERROR "test label '${label}' is part of '${other}': 'ctest -L ${label}' would select both; rename one")
    endif()
  endforeach()
endforeach()

# What the sanitizer presets build: the tests labelled unit or conformance, which is what they run.
add_custom_target(sanitized_tests)
# What the preset fuzz builds and runs.
add_custom_target(fuzzers)

# misfire_test(NAME <name> SOURCES ... [LINK ...] [LABELS ...] [TIMEOUT s] [ARGS ...])
# A plain test executable on tests/check.hpp. Labels: exactly one of cpu and gpu is required for every test (cpu when neither is
# given); 77 is a skip.
function(misfire_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "SOURCES;LINK;LABELS;ARGS" ${ARGN})
  string(REPLACE "." "_" target test_${ARG_NAME})
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE misfire_build misfire_check ${ARG_LINK})
  add_test(NAME ${ARG_NAME} COMMAND ${target} ${ARG_ARGS})
  misfire_test_properties(${ARG_NAME} "${ARG_TIMEOUT}" ${ARG_LABELS})
  if("unit" IN_LIST ARG_LABELS OR "conformance" IN_LIST ARG_LABELS)
    add_dependencies(sanitized_tests ${target})
  endif()
endfunction()

# misfire_fuzzer(NAME <name> SOURCES ... CORPUS <directory> ... [LINK ...])
# A source with LLVMFuzzerTestOneInput, and the test fuzz.<name>. With MISFIRE_FUZZ it is a libFuzzer program and runs for
# MISFIRE_FUZZ_SECONDS from the corpus, keeping what it finds in the build directory; without, it is given each file of the corpus
# once (tests/fuzz/replay.cpp).
function(misfire_fuzzer)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;CORPUS;LINK" ${ARGN})
  set(target fuzz_${ARG_NAME})
  list(TRANSFORM ARG_CORPUS PREPEND ${PROJECT_SOURCE_DIR}/)
  add_executable(${target} ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE misfire_build ${ARG_LINK})
  if(MISFIRE_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(found ${CMAKE_CURRENT_BINARY_DIR}/found/${ARG_NAME})
    file(MAKE_DIRECTORY ${found})
    add_test(NAME fuzz.${ARG_NAME} COMMAND ${target} -max_total_time=${MISFIRE_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=2048
      -print_final_stats=1 -verbosity=0 -artifact_prefix=${found}- ${found} ${ARG_CORPUS})
    math(EXPR timeout "${MISFIRE_FUZZ_SECONDS} + 60")
  else()
    target_link_libraries(${target} PRIVATE misfire_replay)
    add_test(NAME fuzz.${ARG_NAME} COMMAND ${target} ${ARG_CORPUS})
    set(timeout "")
  endif()
  misfire_test_properties(fuzz.${ARG_NAME} "${timeout}" fuzz conformance)
  add_dependencies(sanitized_tests ${target})
  add_dependencies(fuzzers ${target})
endfunction()

# misfire_test_properties(NAME TIMEOUT LABELS...)
# What every test has: its labels, checked; a timeout in seconds ("" for 60); 77 as a skip; the check of MISFIRE_REQUIRE.
function(misfire_test_properties name timeout)
  set(labels ${ARGN})
  foreach(label IN LISTS labels)
    if(NOT label IN_LIST misfire_labels)
      message(FATAL_ERROR "test ${name} has an unknown label '${label}': add it to misfire_labels in scripts/cmake/Misfire.cmake")
    endif()
  endforeach()
  if("cpu" IN_LIST labels AND "gpu" IN_LIST labels)
    message(FATAL_ERROR "test ${name} is labelled both cpu and gpu: choose one")
  endif()
  if(NOT "cpu" IN_LIST labels AND NOT "gpu" IN_LIST labels)
    list(APPEND labels cpu)
  endif()
  if(NOT timeout)
    set(timeout 60)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77)
  if(MISFIRE_REQUIRE)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED misfire_require)
  endif()
endfunction()

# misfire_require_tests()
# One test for each capability of MISFIRE_REQUIRE, which fails when the capability is missing: tests that need it would only be
# skipped, and a skip counts as passed. It is the clean-up of a fixture that every test requires, so that ctest runs it with any
# selection, by label or by name, and all the other tests still run.
function(misfire_require_tests)
  string(REPLACE "," ";" capabilities "${MISFIRE_REQUIRE}")
  foreach(capability IN LISTS capabilities)
    add_test(NAME require.${capability} COMMAND misfire doctor --require ${capability})
    set_tests_properties(require.${capability} PROPERTIES FIXTURES_CLEANUP misfire_require TIMEOUT 60 LABELS "${misfire_labels}")
  endforeach()
endfunction()

# misfire_failure_tests(SCENARIO)
# Tests of every failure file of a scenario: adding the file is all that is needed.
#   <scenario>.<failure>.reproduces        every arm is as the file says
#   <scenario>.<failure>.zero_dose         at its neutral dose the faulty arm reads healthy
#   <scenario>.<failure>.sabotage          without its condition (for pure misuse: without that) the verdict is invalid
#   <scenario>.<failure>.broken_signature  a signature that cannot hold is not reproduced
#   <scenario>.matrix                      every failure is recognised as itself and only itself
# Trials measure: those of failures that are not invariants run with nothing beside them, the others one at a time.
function(misfire_failure_tests scenario)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/suites/${scenario}/failures/*.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  foreach(file IN LISTS files)
    cmake_path(GET file STEM name)
    file(READ ${file} json)
    string(JSON condition ERROR_VARIABLE absent TYPE "${json}" condition)
    string(JSON neutral ERROR_VARIABLE no_dose GET "${json}" dose neutral)
    string(JSON invariant ERROR_VARIABLE ignored GET "${json}" invariant)
    if(absent)
      set(removed misuse)
    else()
      set(removed condition)
    endif()
    _misfire_failure_test(${scenario} ${name} reproduces "${invariant}" --all-arms --expect reproduced)
    if(NOT no_dose)
      _misfire_failure_test(${scenario} ${name} zero_dose "${invariant}" --dose ${neutral} --expect not_reproduced)
    endif()
    _misfire_failure_test(${scenario} ${name} sabotage "${invariant}" --sabotage ${removed} --expect invalid)
    _misfire_failure_test(${scenario} ${name} broken_signature "${invariant}" --sabotage signature --expect not_reproduced)
  endforeach()
  if(files)
    set(name ${scenario}.matrix)
    add_test(NAME ${name} COMMAND misfire matrix --scenario ${scenario} --data ${CMAKE_CURRENT_BINARY_DIR}/data
      -o ${CMAKE_CURRENT_BINARY_DIR}/${name})
    misfire_test_properties(${name} 300 ${scenario} failure timing)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

function(_misfire_failure_test scenario failure kind invariant)
  set(name ${scenario}.${failure}.${kind})
  add_test(NAME ${name} COMMAND misfire reproduce ${failure} ${ARGN} --data ${CMAKE_CURRENT_BINARY_DIR}/data
    -o ${CMAKE_CURRENT_BINARY_DIR}/${name})
  misfire_test_properties(${name} 120 ${scenario} failure)
  if(invariant)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK misfire_trial)
  else()
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()
