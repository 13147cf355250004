// A first program: saves a state, opens it again and reads part of it.
#include <cstdio>
#include <vector>

#include "espalier/checkpoint_file.h"
#include "espalier/save.h"

int main(int argc, char** argv) {
  using namespace espalier;
  if (argc != 2) return 2;
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const Value state = Value::dict({{"weight", Value::tensor(borrow(weight), {2, 3})}, {"step", 7}});
  if (const auto saved = save(argv[1], state); !saved) {
    std::fprintf(stderr, "%s\n", saved.error().describe().c_str());
    return 1;
  }
  const auto file = CheckpointFile::open(argv[1]);
  if (!file) return 1;
  const auto node = file->state().at("weight");
  const Slice second_row{.start = 1};
  const auto row = node ? file->slice(*node->tensor(), std::span(&second_row, 1)) : propagate(node);
  const auto elements = row ? row->as<float>() : propagate(row);
  if (!elements || elements->size() != 3) return 1;
  const bool right = elements->front() == 4 && file->state().at("step")->as_int64() == 7;
  std::puts(right ? "ok" : "wrong");
  return right ? 0 : 1;
}
