#include "cli/terminal/terminal.h"

#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace espalier::cli {

bool is_capable_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

std::size_t terminal_columns(int fd) {
  winsize size = {};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80u;
}

}  // namespace espalier::cli
