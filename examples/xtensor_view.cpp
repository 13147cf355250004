// Uses a tensor of a checkpoint as an xtensor expression, where it lies in the file: no copy. Saves
// one that was computed.
//
//   xtensor_view FILE WEIGHT OUT     the key path of an f32 tensor; saves its means along the last
//                                    axis as "means"
#include <cstdio>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xmath.hpp>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

int report(const Error& error) {
  std::fprintf(stderr, "xtensor_view: %s\n", error.describe().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: xtensor_view FILE WEIGHT OUT\n", stderr), 2;
  const auto file = CheckpointFile::open(argv[1]);
  if (!file) return report(file.error());
  const auto view = file->tensor(argv[2]);  // keeps the mapped file alive
  if (!view) return report(view.error());
  const auto elements = view->as<float>();
  if (!elements) return report(elements.error());
  if (view->shape.empty()) return std::fputs("xtensor_view: this has no axis\n", stderr), 1;

  // Tensors are in C order, which is xtensor's own.
  const auto weight =
      xt::adapt(elements->data(), elements->size(), xt::no_ownership(), view->shape);
  const xt::xarray<float> means = xt::mean(weight, {view->shape.size() - 1});

  const Value state =
      Value::dict({{"means", Value::tensor(borrow(means.storage()),
                                           {means.shape().begin(), means.shape().end()})}});
  if (auto saved = save(argv[3], state); !saved) return report(saved.error());
  return 0;
}
