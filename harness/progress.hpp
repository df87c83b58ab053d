#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/unit.hpp"

namespace misfire {

enum class Colour { plain, bold, faint, red, green, yellow, blue };

/// Whether colour is welcome there: a terminal that is not "dumb", and NO_COLOR unset or empty (no-color.org).
bool colour_wanted(int descriptor);
/// The text in that colour, or as it is when `wanted` is false.
std::string coloured(std::string_view text, Colour colour, bool wanted);
/// Columns of the terminal there, else `fallback`.
int terminal_width(int descriptor, int fallback = 100);

/// What is going on now, on standard error: one line that is rewritten on a terminal, else a line at the end of each step (and
/// every ten seconds while one lasts). Use from one thread.
class Progress {
 public:
  explicit Progress(int descriptor = 2);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// A step begins: "[2/3] shm-exhaustion-sigbus faulty". @param deadline shown beside the elapsed time; 0 for none
  void begin(std::string_view what, Duration deadline = {});
  /// Call often while it runs (ProcessSpec::poll): cheap, and writes at most ten times a second.
  void update();
  /// The step has ended: its line stays, with the result and the time taken.
  void end(std::string_view result, Colour colour = Colour::plain);
  /// A line of its own, above the live one.
  void note(std::string_view text);

 private:
  void draw();
  void clear();
  void write(std::string_view text) const;

  int descriptor_;
  bool live_, colour_;
  bool drawn_ = false;
  std::string what_;
  Duration deadline_{};
  std::int64_t begin_ns_ = 0, next_ns_ = 0;
};

}  // namespace misfire
