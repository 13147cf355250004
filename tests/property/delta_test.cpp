// Saves random pairs of trees, the second against the first, and compares what opens.
//
//   delta_test [--pairs N] [--seed S]
//
// Pair number i comes from seed S + i alone, so that a failure is repeated with `--pairs 1 --seed`.
// Of each pair A, B, and of a third tree C:
// - a save of B against A has B's digest, is intact, and holds B: saved again, it gives B's bytes;
// - so has a save of C against that;
// - a save of A against A has no byte of a tensor.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/random.h"

#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/format/access.h"
#include "espalier/format/element_layout.h"
#include "espalier/save.h"

namespace espalier::testing {
namespace {

using Bytes = std::shared_ptr<const std::vector<std::byte>>;

// Changes some bytes of a tensor: those of a few elements by one unit, those of many, or all.
void change(Random& random, std::vector<std::byte>& bytes, std::size_t width) {
  const std::size_t elements = bytes.size() / width;
  if (elements == 0) return;
  constexpr std::uint64_t kEvery[] = {1, 2, 10, 100, 1000};
  const std::uint64_t every = kEvery[random.below(5)];
  const bool is_noise = random.one_in(4);
  for (std::size_t i = 0; i < elements; ++i) {
    if (!random.one_in(every)) continue;
    std::byte* at = bytes.data() + i * width;
    if (is_noise) {
      *at = static_cast<std::byte>(random.below(256));
    } else {
      // One unit of the last place, with a carry.
      std::uint64_t value = 0;
      std::memcpy(&value, at, width);
      value += random.one_in(2) ? 1 : ~std::uint64_t{0};
      std::memcpy(at, &value, width);
    }
  }
}

Tensor random_tensor(Random& random, std::uint64_t most_bytes) {
  static const std::vector<DType> dtypes = {DType::kBF16, DType::kF32, DType::kF16,
                                            DType::kF64,  DType::kI8,  DType::kI64,
                                            DType::kC64,  DType::kU16, DType::kF8E4M3FN};
  Tensor tensor;
  tensor.dtype = random.pick(dtypes);
  const std::uint64_t width = dtype_bits(tensor.dtype) / 8;
  const std::uint64_t elements = random.below(most_bytes / width + 1);
  tensor.shape = {elements};
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements * width));
  const bool is_smooth = random.one_in(3);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random.below(is_smooth ? 3 : 256));
  }
  tensor.data = TensorData::owned(std::move(bytes));
  return tensor;
}

using State = std::map<std::string, Tensor>;

State random_state(Random& random) {
  State state;
  // Few pairs have tensors of several chunks: they take most of the time.
  const std::uint64_t most = random.one_in(40) ? 5 << 19 : 3000;
  for (std::uint64_t i = random.below(6); i > 0; --i) {
    state["t" + std::to_string(i)] = random_tensor(random, most);
  }
  return state;
}

State next_state(Random& random, const State& state) {
  State next;
  for (const auto& [name, tensor] : state) {
    switch (random.below(8)) {
      case 0:
        continue;
      case 1:
        next[name] = random_tensor(random, 3000);
        continue;
      case 2:
        next[name + "x"] = tensor;
        continue;
      case 3:
        next[name] = tensor;
        continue;
      default:
        break;
    }
    const auto memory = *tensor.data.memory();
    std::vector<std::byte> bytes(memory.begin(), memory.end());
    change(random, bytes, element_layout(tensor.dtype).width);
    next[name] = tensor;
    next[name].data = TensorData::owned(std::move(bytes));
  }
  if (random.one_in(3)) next["new"] = random_tensor(random, 3000);
  return next;
}

Value value_of(const State& state) {
  Value value = Value::dict();
  for (const auto& [name, tensor] : state) value.add(Key(name), Value::tensor(Tensor(tensor)));
  return value;
}

class Pair {
 public:
  explicit Pair(std::uint64_t seed) : random_(seed) {}

  // What went wrong, or nothing.
  std::string run() {
    const State a = random_state(random_);
    const State b = next_state(random_, a);
    const State c = next_state(random_, b);
    const int level_of_base = random_.one_in(2) ? kNoCompression : kFastCompression;
    options_.compression_level = random_.one_in(2) ? kNoCompression : kFastCompression;
    options_.most_of_full = random_.one_in(4) ? 0.6 : 1;
    options_.patches = !random_.one_in(5);
    auto base = save_to_memory(value_of(a), {.compression_level = level_of_base});
    if (!base) return base.error().describe();
    files_["a"] = std::make_shared<const std::vector<std::byte>>(std::move(*base));
    for (const auto& [from, to, state] :
         {std::tuple("a", "same", &a), std::tuple("a", "b", &b), std::tuple("b", "c", &c)}) {
      if (auto wrong = check(from, to, *state); !wrong.empty()) {
        return std::string(to) + " against " + from + ": " + wrong;
      }
    }
    return {};
  }

  std::uint64_t patches() const { return patches_; }
  std::uint64_t references() const { return references_; }
  std::uint32_t most_layers() const { return most_layers_; }

 private:
  Result<CheckpointFile> open(const std::string& name) const {
    OpenFileOptions options;
    options.name = name;
    options.sibling = [this](const std::string& other) -> Result<std::shared_ptr<const Source>> {
      const Bytes& bytes = files_.at(other);
      return memory_source(*bytes, bytes);
    };
    const Bytes& bytes = files_.at(name);
    return CheckpointFile::open(*bytes, bytes, options);
  }

  std::string check(const std::string& from, const std::string& to, const State& state) {
    const auto base = open(from);
    if (!base) return base.error().describe();
    SaveOptions options = options_;
    options.bases = {{&*base, from}};
    const Value value = value_of(state);
    auto delta = save_to_memory(value, options);
    const auto plain = save_to_memory(value, options_);
    if (!delta) return delta.error().describe();
    if (!plain) return plain.error().describe();
    files_[to] = std::make_shared<const std::vector<std::byte>>(std::move(*delta));
    const auto opened = open(to);
    if (!opened) return opened.error().describe();
    const auto report = opened->verify();
    if (!report) return report.error().describe();
    if (!report->errors.empty()) return report->errors.front().describe();
    const auto loaded = opened->load(opened->state());
    if (!loaded) return loaded.error().describe();
    const auto flat = save_to_memory(*loaded, options_);
    if (!flat) return flat.error().describe();
    if (*flat != *plain) return "flattened, it has other bytes";
    const Catalog& catalog = opened->checkpoint().catalog();
    const auto whole = CheckpointFile::open(*plain);
    if (!whole || catalog.tree_digest() != whole->checkpoint().catalog().tree_digest()) {
      return "it has another digest";
    }
    if (to == "same" && catalog.data_begin() != catalog.file_length()) return "it has blobs";
    const Tables& t = catalog.tables();
    for (std::uint32_t i = 0; i < t.chunks.size(); ++i) {
      patches_ += t.chunks[i].is_patch() ? 1 : 0;
      references_ += t.chunks[i].file != 0 ? 1 : 0;
      most_layers_ = std::max(most_layers_, static_cast<std::uint32_t>(catalog.bases(i).size()));
    }
    return {};
  }

  Random random_;
  SaveOptions options_;
  std::map<std::string, Bytes> files_;
  std::uint64_t patches_ = 0;
  std::uint64_t references_ = 0;
  std::uint32_t most_layers_ = 0;
};

int run(std::uint64_t pairs, std::uint64_t seed) {
  std::uint64_t patches = 0;
  std::uint64_t references = 0;
  std::uint32_t most_layers = 0;
  for (std::uint64_t i = 0; i < pairs; ++i) {
    Pair pair(seed + i);
    if (const std::string wrong = pair.run(); !wrong.empty()) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed + i), wrong.c_str());
      return 1;
    }
    patches += pair.patches();
    references += pair.references();
    most_layers = std::max(most_layers, pair.most_layers());
  }
  std::printf("%llu pairs, %llu patches, %llu references, up to %u layers\n",
              static_cast<unsigned long long>(pairs), static_cast<unsigned long long>(patches),
              static_cast<unsigned long long>(references), most_layers);
  // A generator that makes none would test nothing.
  return pairs < 100 || (patches > pairs / 2 && references > pairs / 2 && most_layers == 2) ? 0 : 1;
}

}  // namespace
}  // namespace espalier::testing

int main(int argc, char** argv) {
  std::uint64_t pairs = 10'000;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string_view text = argv[i + 1];
    std::uint64_t& number = option == "--seed" ? seed : pairs;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if ((option != "--seed" && option != "--pairs") || parsed.ec != std::errc()) {
      std::fprintf(stderr, "usage: delta_test [--pairs N] [--seed S]\n");
      return 2;
    }
  }
  return espalier::testing::run(pairs, seed);
}
