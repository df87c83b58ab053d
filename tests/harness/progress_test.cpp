// Goal: one line that is rewritten on a terminal, whole plain lines elsewhere, colour only where it is welcome.
// Method: a pseudo-terminal and a pipe.
#include "harness/progress.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/check.hpp"

using namespace misfire;
using namespace std::chrono_literals;

namespace {

class Terminal {
 public:
  explicit Terminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    const winsize size{24, columns, 0, 0};
    ::ioctl(slave_, TIOCSWINSZ, &size);
    ::fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::close(slave_);
    ::close(master_);
  }
  int descriptor() const { return slave_; }
  std::string shown() const {
    std::string text(1 << 16, '\0');
    const ssize_t got = ::read(master_, text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }

 private:
  int master_, slave_ = -1;
};

struct TemporaryVariable {
  TemporaryVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~TemporaryVariable() { ::unsetenv(name_); }
  const char* name_;
};

}  // namespace

TEST("on a terminal the line is rewritten, fits, and gives way to the result") {
  const TemporaryVariable term("TERM", "xterm");
  const Terminal terminal(40);
  {
    Progress progress(terminal.descriptor());
    progress.begin("shm-exhaustion-sigbus faulty", 10s);
    CHECK_EQ(terminal.shown(), "\r\033[Kshm-exhaustion-sigbus faulty  0.0 s of ");  // 39 columns: the last would wrap
    progress.update();
    CHECK_EQ(terminal.shown(), "");  // too soon
    std::this_thread::sleep_for(110ms);
    progress.update();
    CHECK(terminal.shown().find("0.1 s") != std::string::npos);
    progress.note("a note");
    CHECK(terminal.shown().find("\r\033[Ka note\r\n") == 0);
    progress.end("reproduced", Colour::green);
    const std::string text = terminal.shown();
    CHECK(text.find("\r\033[Kshm-exhaustion-sigbus faulty: \033[32mreproduced\033[0m (") == 0);
    CHECK(text.ends_with("ms)\r\n"));
    progress.end("twice");
    CHECK_EQ(terminal.shown(), "");
    progress.begin("unfinished");
    terminal.shown();
  }
  CHECK_EQ(terminal.shown(), "\r\033[K");  // nothing stays of a step that never ended
}

TEST("elsewhere there are whole lines without escapes, one a step") {
  int ends[2];
  CHECK_EQ(::pipe(ends), 0);
  {
    Progress progress(ends[1]);
    progress.begin("a faulty", 10s);
    for (int i = 0; i < 3; ++i) progress.update();
    progress.note("note");
    progress.end("reproduced", Colour::green);
  }
  ::close(ends[1]);
  char buffer[1024];
  const ssize_t got = ::read(ends[0], buffer, sizeof buffer);
  ::close(ends[0]);
  const std::string text(buffer, static_cast<std::size_t>(got));
  CHECK(text.starts_with("note\na faulty: reproduced ("));
  CHECK(text.ends_with(")\n"));
  CHECK(text.find('\033') == std::string::npos);
}

TEST("NO_COLOR, a dumb terminal and a pipe are without colour, an ordinary terminal is not") {
  const TemporaryVariable term("TERM", "xterm");
  const Terminal terminal(80);
  CHECK(colour_wanted(terminal.descriptor()));
  {
    const TemporaryVariable refused("NO_COLOR", "1");
    CHECK(!colour_wanted(terminal.descriptor()));
  }
  {
    const TemporaryVariable empty("NO_COLOR", "");
    CHECK(colour_wanted(terminal.descriptor()));
  }
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  CHECK(!colour_wanted(null));
  CHECK_EQ(terminal_width(null, 77), 77);
  CHECK_EQ(terminal_width(terminal.descriptor()), 80);
  ::close(null);
  ::setenv("TERM", "dumb", 1);
  CHECK(!colour_wanted(terminal.descriptor()));
  CHECK_EQ(coloured("x", Colour::red, true), "\033[31mx\033[0m");
  CHECK_EQ(coloured("x", Colour::red, false), "x");
  CHECK_EQ(coloured("x", Colour::plain, true), "x");
}
