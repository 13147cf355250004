// Merges two checkpoints and their metadata into a new one. Where both have a value, the second
// wins; `espalier merge` goes by the same rule.
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
  if (auto ok = all->state.merge(more->state, Value::later_wins); !ok) return ok;
  if (auto ok = all->metadata.merge(more->metadata, Value::later_wins); !ok) return ok;
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
