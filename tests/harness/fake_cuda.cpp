// A stand-in for NVIDIA's libcuda.so.1, for tests of the probe that asks it: a machine with GPUs, or one of its failures.
#include <cstdio>
#include <cstdlib>

namespace {
int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}
}  // namespace

extern "C" {
int cuInit(unsigned) { return number("FAKE_CUDA_ERROR", 0); }
int cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 12040);
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_DEVICES", 8);
  return 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::snprintf(name, static_cast<unsigned long>(size), "NVIDIA H200");
  return 0;
}
int cuGetErrorName(int error, const char** name) {
  *name = error == 100 ? "CUDA_ERROR_NO_DEVICE" : error == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
}
