# The trial engine and what it stands on.
foreach(part IN ITEMS recorder fault record procfs)
  misfire_test(NAME harness.${part} SOURCES ${part}_test.cpp LINK misfire::harness LABELS unit)
endforeach()
