// Changes one tensor and one number of a checkpoint in place; all else stays as it is.
//
//   edit FILE TENSOR NUMBER     two key paths: the tensor becomes a row of zeros, the number 0
#include <cstdio>
#include <vector>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

Result<void> edit(const char* path, const char* tensor, const char* number) {
  auto contents = load_contents(path);
  if (!contents) return propagate(contents);
  if (auto ok = contents->state.set(tensor, Value::tensor(std::vector<float>(8), {8})); !ok)
    return ok;
  if (auto ok = contents->state.set(number, Value::integer(0)); !ok) return ok;
  return save(path, *contents);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: edit FILE TENSOR NUMBER\n", stderr), 2;
  const auto edited = edit(argv[1], argv[2], argv[3]);
  if (edited) return 0;
  std::fprintf(stderr, "edit: %s\n", edited.error().describe().c_str());
  return 1;
}
