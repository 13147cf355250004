// Changes one tensor of a checkpoint in place, and if asked to a number; all else stays as it is.
//
//   edit FILE TENSOR [NUMBER]   two key paths: the tensor becomes a row of zeros, the number 0
#include <cstdio>
#include <filesystem>
#include <vector>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

Result<void> edit(const std::filesystem::path& path, const char* tensor, const char* number) {
  auto contents = load_contents(path);
  if (!contents) return propagate(contents);
  // The tensor must be there. set() adds what is missing, so a misspelt path would be a new tensor.
  const auto found = contents->state.at(tensor);
  if (!found) return propagate(found);
  **found = Value::tensor(std::vector<float>(8), {8});
  if (number != nullptr) {
    if (auto ok = contents->state.set(number, Value::integer(0)); !ok) return ok;
  }
  if (path.extension() != ".safetensors") return save(path, *contents);
  const auto saved = save_safetensors(path, *contents);
  return saved ? Result<void>() : propagate(saved);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return std::fputs("usage: edit FILE TENSOR [NUMBER]\n", stderr), 2;
  const auto edited = edit(argv[1], argv[2], argc == 4 ? argv[3] : nullptr);
  if (edited) return 0;
  std::fprintf(stderr, "edit: %s\n", edited.error().describe().c_str());
  return 1;
}
