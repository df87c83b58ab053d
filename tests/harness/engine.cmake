# The trial engine and what it stands on.
foreach(part IN ITEMS recorder fault record procfs)
  misfire_test(NAME harness.${part} SOURCES ${part}_test.cpp LINK misfire::harness LABELS unit)
endforeach()
misfire_test(NAME harness.trial SOURCES trial_test.cpp LINK misfire::harness LABELS conformance TIMEOUT 120)
misfire_test(NAME harness.trial_kill SOURCES trial_kill_test.cpp LINK misfire::harness LABELS conformance TIMEOUT 300)
add_executable(trial_victim trial_victim.cpp)
target_link_libraries(trial_victim PRIVATE misfire_build misfire::harness)
add_dependencies(test_harness_trial_kill trial_victim)
