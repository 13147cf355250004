// Reads two tensors of a checkpoint into vectors, and nothing else of the file.
//
//   partial_load FILE WEIGHT BIAS ROWS COLUMNS     two key paths, and the shape of the weight
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

int report(const Error& error) {
  std::fprintf(stderr, "partial_load: %s\n", error.describe().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6)
    return std::fputs("usage: partial_load FILE WEIGHT BIAS ROWS COLUMNS\n", stderr), 2;
  const std::size_t rows = std::strtoull(argv[4], nullptr, 10);
  const std::size_t columns = std::strtoull(argv[5], nullptr, 10);
  std::vector<float> weight(rows * columns);
  std::vector<float> bias(rows);

  const auto file = CheckpointFile::open(argv[1]);
  if (!file) return report(file.error());
  const auto loaded = file->load_into({{argv[2], weight}, {argv[3], bias}});
  if (!loaded) return report(loaded.error());

  std::printf("%g %g\n", static_cast<double>(std::accumulate(weight.begin(), weight.end(), 0.f)),
              static_cast<double>(std::accumulate(bias.begin(), bias.end(), 0.f)));
  return 0;
}
