// What the terminal is able to show.
#ifndef ESPALIER_CLI_TERMINAL_TERMINAL_H_
#define ESPALIER_CLI_TERMINAL_TERMINAL_H_

#include <cstddef>

namespace espalier::cli {

/// Whether `fd` is a terminal that obeys escape sequences.
bool is_capable_terminal(int fd);

/// The width of the terminal `fd` in characters; 80 if `fd` is none, or its width is unknown.
std::size_t terminal_columns(int fd);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_TERMINAL_TERMINAL_H_
