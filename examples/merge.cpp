// Merges two checkpoints into a new one; where both have a value, the second wins.
//
//   merge A B OUT
#include <cstdio>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

Result<void> merge(const char* a, const char* b, const char* out) {
  auto all = load_contents(a);
  auto more = load_contents(b);
  if (!all || !more) return propagate(all ? more : all);
  if (auto ok = all->state.merge(more->state, Value::OnConflict::kReplace); !ok) return ok;
  return save(out, *all);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: merge A B OUT\n", stderr), 2;
  const auto merged = merge(argv[1], argv[2], argv[3]);
  if (merged) return 0;
  std::fprintf(stderr, "merge: %s\n", merged.error().describe().c_str());
  return 1;
}
