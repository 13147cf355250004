#include "cli/writing/output_name.h"

#include <utility>

namespace espalier::cli {

CLI::Option* add_output_option(CLI::App& command, std::optional<std::string>& output,
                               const std::string& what) {
  return command.add_option("-o,--output", output, what)->type_name("OUT");
}

Result<std::string> take_output(std::vector<std::string>& names,
                                const std::optional<std::string>& output, std::size_t inputs) {
  if (names.size() < inputs + (output ? 0 : 1)) {
    return fail(ErrorCode::kInvalidArgument,
                output ? "there are too few inputs before -o"
                       : "OUT is missing: write the file to write after the inputs, or after -o");
  }
  if (output) return *output;
  std::string last = std::move(names.back());
  names.pop_back();
  return last;
}

}  // namespace espalier::cli
