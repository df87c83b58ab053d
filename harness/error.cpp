#include "harness/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace misfire {

Exit exit_for(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::invalid_input:
    case ErrorCode::not_found:
      return Exit::usage;
    default:
      return Exit::internal;
  }
}

Error system_error(std::string_view action, std::string_view subject, int errno_value) {
  ErrorCode code = ErrorCode::io;
  switch (errno_value) {
    case EACCES:
    case EPERM:
    case EROFS:
      code = ErrorCode::permission;
      break;
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::no_space;
      break;
    case ENOENT:
    case ENOTDIR:
      code = ErrorCode::not_found;
      break;
    case ENOSYS:
    case EOPNOTSUPP:
      code = ErrorCode::unsupported;
      break;
    default:
      break;
  }
  std::string message(action);
  if (!subject.empty()) message.append(" '").append(subject).append("'");
  message.append(": ").append(std::strerror(errno_value));
  return Error(code, message);
}

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "misfire: internal error: assertion '%s' failed at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace misfire
