// Uses a tensor of a checkpoint as an Eigen matrix, where it lies in the file: no copy.
//
//   eigen_view FILE WEIGHT     the key path of an f32 matrix; prints the sum of each row
#include <cstdio>

#include <Eigen/Core>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

// Tensors are in C order, so the matrix is row-major.
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

int report(const Error& error) {
  std::fprintf(stderr, "eigen_view: %s\n", error.describe().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: eigen_view FILE WEIGHT\n", stderr), 2;
  const auto file = CheckpointFile::open(argv[1]);
  if (!file) return report(file.error());
  const auto view = file->tensor(argv[2]);  // keeps the mapped file alive
  if (!view) return report(view.error());
  const auto elements = view->as<float>();
  if (!elements) return report(elements.error());
  if (view->shape.size() != 2) return std::fputs("eigen_view: this is no matrix\n", stderr), 1;

  const Eigen::Map<const RowMajor> weight(elements->data(),
                                          static_cast<Eigen::Index>(view->shape[0]),
                                          static_cast<Eigen::Index>(view->shape[1]));
  const Eigen::VectorXf sums = weight * Eigen::VectorXf::Ones(weight.cols());
  for (const float sum : sums) std::printf("%.6g\n", static_cast<double>(sum));
  return 0;
}
