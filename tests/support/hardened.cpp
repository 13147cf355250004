// Does what a debug build ends the program for: a result without a value is used, and a handle
// without a file.
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "support/memory_file.h"

#include "espalier/checkpoint.h"
#include "espalier/error.h"
#include "espalier/value.h"

int main(int argc, char** argv) {
  using namespace espalier;
  if (argc != 2) return 2;
  // To the test, a program that aborts has crashed.
  std::signal(SIGABRT, [](int) { std::_Exit(0); });
  const std::string_view what = argv[1];
  const Result<Key> failed = fail(ErrorCode::kNotFound, "no such key", Error::kNoOffset, "a/b");
  if (what == "star") return (*failed).view().is_int ? 1 : 0;
  if (what == "arrow") return failed->view().is_int ? 1 : 0;
  std::optional<NodeRef> node;
  {
    const auto file = testing::write_file(Value::dict({{"a", 1}}));
    const auto opened = testing::open_file(*file);
    node = opened->state();
  }
  return static_cast<int>(node->size());
}
