#pragma once

// A small test harness: TEST registers, CHECK... count and print, misfire_check_main runs everything in random order.
// A test executable is a plain program: exit 0 pass, 1 failure, 77 every test skipped.

#include <functional>
#include <sstream>
#include <string>
#include <string_view>

namespace misfire::check {

void add_test(const char* name, const char* file, int line, void (*function)());
/// Records the result of one check; prints when it failed.
void report(bool passed, const char* file, int line, const std::string& what);
/// Ends the present test as skipped.
[[noreturn]] void skip(const std::string& reason);

struct Registrar {
  Registrar(const char* name, const char* file, int line, void (*function)()) { add_test(name, file, line, function); }
};

template <class T>
std::string show(const T& value) {
  if constexpr (requires(std::ostream& stream) { stream << value; }) {
    std::ostringstream stream;
    stream.precision(17);
    stream << value;
    return stream.str();
  } else {
    return "?";
  }
}

template <class A, class B>
void equal(const A& a, const B& b, const char* text, const char* file, int line) {
  const bool passed = a == b;
  report(passed, file, line, passed ? text : std::string(text) + ": " + show(a) + " against " + show(b));
}

/// Runs `function`; passes when it throws a std::exception whose message contains `needle`.
void throws(const std::function<void()>& function, std::string_view needle, const char* text, const char* file, int line);

}  // namespace misfire::check

#define MISFIRE_JOIN2(a, b) a##b
#define MISFIRE_JOIN(a, b) MISFIRE_JOIN2(a, b)
#define TEST(name)                                                                                             \
  static void MISFIRE_JOIN(test_, __LINE__)();                                                                 \
  static const ::misfire::check::Registrar MISFIRE_JOIN(registrar_, __LINE__)(name, __FILE__, __LINE__,        \
                                                                              &MISFIRE_JOIN(test_, __LINE__)); \
  static void MISFIRE_JOIN(test_, __LINE__)()
#define CHECK(expression) ::misfire::check::report(static_cast<bool>(expression), __FILE__, __LINE__, #expression)
#define CHECK_EQ(a, b) ::misfire::check::equal((a), (b), #a " == " #b, __FILE__, __LINE__)
#define CHECK_NEAR(a, b, tolerance)                                             \
  ::misfire::check::report(                                                     \
      (a) - (b) <= (tolerance) && (b) - (a) <= (tolerance), __FILE__, __LINE__, \
      std::string(#a " near " #b ": ") + ::misfire::check::show(a) + " against " + ::misfire::check::show(b))
#define CHECK_THROWS(expression, needle) \
  ::misfire::check::throws([&] { static_cast<void>(expression); }, (needle), #expression, __FILE__, __LINE__)
#define SKIP(reason) ::misfire::check::skip(reason)
