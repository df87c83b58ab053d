// Goal: files are read whole, replaced at once or not at all, and temporary directories leave nothing.
#include "harness/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "harness/error.hpp"
#include "harness/process.hpp"
#include "tests/check.hpp"
#include "tests/harness/self.hpp"

using namespace misfire;
namespace fs = std::filesystem;

TEST("a file is written, replaced, and its neighbours stay alone") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  write_file_atomically(path, "one");
  CHECK_EQ(read_whole_file(path), "one");
  write_file_atomically(path, std::string(100000, 'x'));
  CHECK_EQ(read_whole_file(path).size(), 100000u);
  write_file_atomically(path, "");
  CHECK_EQ(read_whole_file(path), "");
  CHECK_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 1);
}

TEST("a refused write leaves the old content and no temporary") {
  const TemporaryDirectory directory;
  CHECK_THROWS(write_file_atomically(directory.path() + "/none/a", "x"), "No such file or directory");
  fs::create_directory(directory.path() + "/d");
  CHECK_THROWS(write_file_atomically(directory.path() + "/d", "x"), "Is a directory");
  CHECK_EQ(std::distance(fs::recursive_directory_iterator(directory.path()), fs::recursive_directory_iterator()), 1);
}

TEST("a link is followed, a device is written to and stays what it is") {
  const TemporaryDirectory directory;
  write_file_atomically(directory.path() + "/real", "old");
  fs::create_symlink("real", directory.path() + "/link");
  write_file_atomically(directory.path() + "/link", "new");
  CHECK(fs::is_symlink(directory.path() + "/link"));
  CHECK_EQ(read_whole_file(directory.path() + "/real"), "new");
  const std::string fifo = directory.path() + "/fifo";
  CHECK_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  write_file_atomically(fifo, "through");
  char text[16] = {};
  CHECK_EQ(::read(reader, text, sizeof text), 7);
  ::close(reader);
  CHECK(fs::is_fifo(fifo));
}

TEST("reading stops at the limit, takes files that do not know their size, and says what it cannot read") {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/a";
  write_file_atomically(path, std::string(4096, 'x'));
  CHECK_EQ(read_whole_file(path, 4096).size(), 4096u);
  CHECK_THROWS(read_whole_file(path, 4095), "larger than");
  CHECK_EQ(read_whole_file("/proc/self/stat").find(std::to_string(::getpid())), 0u);
  CHECK_THROWS(read_whole_file("/dev/zero", 1 << 16), "larger than the 64 KiB");
  CHECK_THROWS(read_whole_file(directory.path() + "/b"), "No such file");
  CHECK_THROWS(read_whole_file(directory.path()), "Is a directory");
}

TEST("directories are made with all their parents, and what stands in the way is named") {
  const TemporaryDirectory directory;
  make_directories(directory.path() + "/a/b//c/");
  make_directories(directory.path() + "/a/b/c");
  CHECK(fs::is_directory(directory.path() + "/a/b/c"));
  write_file_atomically(directory.path() + "/file", "");
  CHECK_THROWS(make_directories(directory.path() + "/file/x"), "/file': Not a directory");
  CHECK_THROWS(make_directories("/proc/none/x"), "/proc/none'");
}

TEST("a temporary directory is private and gone with its content") {
  std::string path;
  {
    const TemporaryDirectory directory("misfire-test-");
    path = directory.path();
    struct stat status {};
    CHECK_EQ(::stat(path.c_str(), &status), 0);
    CHECK_EQ(status.st_mode & 0777, 0700u);
    CHECK(path.find("misfire-test-") != std::string::npos);
    make_directories(path + "/a/b");
    write_file_atomically(path + "/a/b/c", "x");
    make_directories(path + "/closed/inner");
    fs::create_symlink("/", path + "/root");  // followed, it would remove the machine
    ::chmod((path + "/closed").c_str(), 0);
    ::chmod((path + "/a/b").c_str(), 0500);
  }
  CHECK(!fs::exists(fs::symlink_status(path)));
  CHECK(fs::exists("/usr"));
}

TEST("a forked child's copy of a temporary directory removes nothing") {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    directory.~TemporaryDirectory();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  CHECK(fs::is_directory(directory.path()));
}

TEST("shipped files are found in the source tree, and beside an installed program first") {
  CHECK(fs::exists(shipped_file("harness/files.hpp")));
  CHECK(!fs::exists(shipped_file("harness/none.hpp")));
  // An installed copy of this program: bin/program and share/misfire beside it.
  skip_unless_this_program_starts();
  const TemporaryDirectory prefix;
  make_directories(prefix.path() + "/bin");
  make_directories(prefix.path() + "/share/misfire/results");
  write_file_atomically(prefix.path() + "/share/misfire/results/x", "installed");
  const std::string program = prefix.path() + "/bin/program";
  fs::copy_file(self_executable(), program);
  const auto result =
      run_process({.argv = {program, "prints a shipped path"}, .environment = {"MISFIRE_TEST_PRINT_SHIPPED=results/x"}});
  CHECK(result.out.find("shipped: " + prefix.path() + "/share/misfire/results/x\n") != std::string::npos);
}

TEST("prints a shipped path") {
  const char* relative = std::getenv("MISFIRE_TEST_PRINT_SHIPPED");
  if (relative == nullptr) SKIP("started by another test");
  std::printf("shipped: %s\n", shipped_file(relative).c_str());
  CHECK(true);
}
