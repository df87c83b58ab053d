#include "harness/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "harness/clock.hpp"

namespace misfire {
namespace {

std::string_view code(Colour colour) {
  switch (colour) {
    case Colour::bold:
      return "\033[1m";
    case Colour::faint:
      return "\033[2m";
    case Colour::red:
      return "\033[31m";
    case Colour::green:
      return "\033[32m";
    case Colour::yellow:
      return "\033[33m";
    case Colour::blue:
      return "\033[34m";
    case Colour::plain:
      break;
  }
  return "";
}

bool dumb_terminal() {
  const char* term = std::getenv("TERM");
  return term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
}

// The first `width` columns, never in the middle of a character.
std::string_view fitted(std::string_view text, int width) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 && ++columns > width) return text.substr(0, i);
  return text;
}

constexpr std::int64_t redraw_ns = 100'000'000, reminder_ns = 10'000'000'000;

}  // namespace

bool colour_wanted(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(descriptor) == 1 && !dumb_terminal() && (no_color == nullptr || *no_color == '\0');
}

std::string coloured(std::string_view text, Colour colour, bool wanted) {
  if (!wanted || colour == Colour::plain) return std::string(text);
  return std::string(code(colour)) + std::string(text) + "\033[0m";
}

int terminal_width(int descriptor, int fallback) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : fallback;
}

Progress::Progress(int descriptor)
    : descriptor_(descriptor), live_(::isatty(descriptor) == 1 && !dumb_terminal()), colour_(colour_wanted(descriptor)) {}

Progress::~Progress() { clear(); }

void Progress::begin(std::string_view what, Duration deadline) {
  what_ = what;
  deadline_ = deadline;
  begin_ns_ = monotonic_ns();
  next_ns_ = begin_ns_ + (live_ ? 0 : reminder_ns);
  update();
}

void Progress::update() {
  const std::int64_t now = monotonic_ns();
  if (what_.empty() || now < next_ns_) return;
  next_ns_ = now + (live_ ? redraw_ns : reminder_ns);
  draw();
}

void Progress::draw() {
  // Whole tenths while it runs: a line whose width jumps is hard to read.
  const auto tenths = (monotonic_ns() - begin_ns_) / 100'000'000;
  std::string line = what_ + "  " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  if (deadline_.count() > 0) line += " of " + format_duration(deadline_);
  if (live_) {
    write("\r\033[K" + std::string(fitted(line, terminal_width(descriptor_) - 1)));
    drawn_ = true;
  } else {
    write(line + "\n");
  }
}

void Progress::end(std::string_view result, Colour colour) {
  if (what_.empty()) return;
  clear();
  write(what_ + ": " + coloured(result, colour, colour_) + " (" + format_duration(Duration(monotonic_ns() - begin_ns_)) + ")\n");
  what_.clear();
}

void Progress::note(std::string_view text) {
  clear();
  write(std::string(text) + "\n");
  if (live_ && !what_.empty()) draw();
}

void Progress::clear() {
  if (drawn_) write("\r\033[K");
  drawn_ = false;
}

void Progress::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      return;  // nobody is there to read it
    }
  }
}

}  // namespace misfire
