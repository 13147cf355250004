// A training loop that survives kill -9: it saves in the background, keeps the last, every
// thousandth and the best checkpoint, and goes on from the latest one that is intact.
//
//   train_loop FOLDER STEPS [LEVEL]     LEVEL: 0 stores tensors raw, 1 to 9 compresses them
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "espalier/espalier.h"

using namespace espalier;

namespace {

constexpr std::size_t kInputs = 20'000;

// Linear regression with momentum: what a real program has in a framework.
struct Model {
  std::vector<float> weights = std::vector<float>(kInputs);
  std::vector<float> momentum = std::vector<float>(kInputs);
};

float input(std::uint64_t step, std::size_t i) {
  return static_cast<float>((step * 31 + i * 17) % 13) / 13 - 0.5f;
}

double train(Model& model, std::uint64_t step) {
  double error = 0;
  for (std::size_t i = 0; i < kInputs; ++i) {
    const double target = static_cast<double>(i % 7) / 7;
    error += (static_cast<double>(model.weights[i]) - target) * static_cast<double>(input(step, i));
  }
  for (std::size_t i = 0; i < kInputs; ++i) {
    const auto gradient = static_cast<float>(error) * input(step, i) / static_cast<float>(kInputs);
    model.momentum[i] = 0.9f * model.momentum[i] + gradient;
    model.weights[i] -= 0.1f * model.momentum[i];
  }
  return error * error;
}

int report(const Error& error) {
  std::fprintf(stderr, "train_loop: %s\n", error.describe().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: train_loop FOLDER STEPS [LEVEL]\n", stderr), 2;
  const std::uint64_t steps = std::strtoull(argv[2], nullptr, 10);
  const int level = argc > 3 ? std::atoi(argv[3]) : 0;
  Model model;
  std::uint64_t step = 0;
  double loss = 0;

  const auto dir = CheckpointDir::open(
      argv[1], {.keep = Retention{.last = 2, .every = 1000, .best = Best{.metric = "loss"}}});
  if (!dir) return report(dir.error());
  const auto latest = dir->latest();
  if (!latest) return report(latest.error());
  if (*latest) {
    step = (*latest)->step;
    const auto loaded = (*latest)->file.load_into(
        {{"model/weights", model.weights}, {"optimizer/momentum", model.momentum}});
    if (!loaded) return report(loaded.error());
    std::fprintf(stderr, "going on from step %llu\n", static_cast<unsigned long long>(step));
  }
  AsyncSave saving;
  while (step < steps) {
    loss = train(model, step++);
    if (step % 50 != 0 && step != steps) continue;
    if (auto saved = saving.wait(); !saved) return report(saved.error());
    const Value state = Value::dict(
        {{"model", Value::dict({{"weights", Value::tensor(borrow(model.weights), {kInputs})}})},
         {"optimizer",
          Value::dict({{"momentum", Value::tensor(borrow(model.momentum), {kInputs})}})}});
    saving =
        dir->save_async(step, state, Snapshot::kCopy,
                        {.metadata = Value::dict({{"loss", loss}}), .compression_level = level});
  }
  if (auto saved = saving.wait(); !saved) return report(saved.error());

  std::printf("%.17g\n", static_cast<double>(model.weights[kInputs / 2]));
  return 0;
}
