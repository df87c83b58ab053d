#include "faults/catalog.hpp"

namespace misfire {

#define MISFIRE_FAULT(file, name) std::unique_ptr<Fault> make_##file();
#include "faults/catalog.inc"
#undef MISFIRE_FAULT

std::span<const FaultEntry> fault_catalog() {
  static constexpr FaultEntry entries[] = {
#define MISFIRE_FAULT(file, name) {name, &make_##file},
#include "faults/catalog.inc"
#undef MISFIRE_FAULT
  };
  return entries;
}

}  // namespace misfire
