// Makes the seeds of every campaign and replay; always the same ones.
//
//   make_seeds FOLDER     writes FOLDER/checkpoints, FOLDER/indexes, FOLDER/safetensors,
//                         FOLDER/gguf, FOLDER/paths, FOLDER/codec, FOLDER/patch, FOLDER/shards; and
//                         FOLDER/large, which is too large to be mutated
#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mutators/mutator.h"
#include "support/gguf_bytes.h"
#include "support/memory_file.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/codec/patch_encoder.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/format/header.h"
#include "espalier/save.h"

namespace espalier::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 4096;  // small seeds are mutated faster and more effectively

bool write(const fs::path& folder, const std::string& name, ByteSpan bytes) {
  fs::create_directories(folder);
  return testing::write_whole(folder / name, {bytes.begin(), bytes.end()});
}

std::vector<std::byte> safetensors(const Value& state, const Value& metadata) {
  const auto plan =
      plan_safetensors(state, metadata, {.unrepresentable = Unrepresentable::kMetadata});
  if (!plan) return {};
  std::vector<std::byte> file(static_cast<std::size_t>(plan->file_length));
  std::copy(plan->header.begin(), plan->header.end(), file.begin());
  for (const SafetensorsTensor& tensor : plan->tensors) {
    const auto place =
        MutableByteSpan(file).subspan(static_cast<std::size_t>(tensor.extent.offset),
                                      static_cast<std::size_t>(tensor.extent.length));
    if (!tensor.data.read(0, place)) return {};
  }
  return file;
}

// Chunks in the form of the target `codec`: a byte for codec and element, two for the number of
// elements, and the stored bytes.
bool make_chunks(const fs::path& folder) {
  bool ok = true;
  ChunkEncoder encoder(kFastCompression);
  int number = 0;
  for (const ElementLayout layout : {ElementLayout{1, false}, ElementLayout{2, true},
                                     ElementLayout{4, true}, ElementLayout{8, false}}) {
    for (const std::size_t elements : {std::size_t{40}, std::size_t{300}}) {
      std::vector<std::byte> logical(elements * layout.width);
      for (std::size_t i = 0; i < logical.size(); ++i) {
        const bool high = i % layout.width + 1 == layout.width;
        logical[i] = static_cast<std::byte>(high ? i / 7 % 3 : i * i);
      }
      const auto encoded = encoder.encode(logical, layout);
      if (!encoded) return false;
      std::vector<std::byte> seed(3);
      seed[0] =
          static_cast<std::byte>(static_cast<int>(encoded->codec) | (layout.is_float ? 4 : 0) |
                                 (std::countr_zero(unsigned{layout.width}) << 3));
      store_le(seed.data() + 1, static_cast<std::uint16_t>(elements));
      seed.insert(seed.end(), encoded->bytes.begin(), encoded->bytes.end());
      ok &= write(folder, "chunk-" + std::to_string(number++), seed);
    }
  }
  return ok;
}

// Patches in the form of the target `patch`: a byte for the element, two for the number of
// elements, and the stored bytes, for the base that the target makes.
bool make_patches(const fs::path& folder) {
  bool ok = true;
  PatchEncoder encoder;
  int number = 0;
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    const ElementLayout layout{static_cast<std::uint8_t>(width), false};
    for (const std::size_t elements : {std::size_t{40}, std::size_t{1000}}) {
      std::vector<std::byte> base(elements * width);
      for (std::size_t i = 0; i < base.size(); ++i) base[i] = static_cast<std::byte>(i * 37);
      // Few changes, changes far apart, most elements and all of them.
      for (const std::size_t every : {29u, 300u, 3u, 1u}) {
        std::vector<std::byte> logical = base;
        for (std::size_t i = 0; i < elements; ++i) {
          if (every == 3 ? i % 3 == 0 : i % every != 0) continue;
          logical[i * width] ^= static_cast<std::byte>(1 + i / 5 % 3);
        }
        const auto patch = encoder.encode(base, logical, layout, base.size());
        if (!patch) return false;
        if (!*patch) continue;
        std::vector<std::byte> seed(3);
        seed[0] = static_cast<std::byte>(std::countr_zero(width) | 8);
        store_le(seed.data() + 1, static_cast<std::uint16_t>(elements - 1));
        seed.insert(seed.end(), (*patch)->begin(), (*patch)->end());
        ok &= write(folder, "patch-" + std::to_string(number++), seed);
      }
    }
  }
  return ok && number > 20;
}

// Checkpoints that lie in several files, with the files in the order in which they are wanted: of
// patches of patches, and references.
bool make_sets(const fs::path& folder) {
  const auto state_at = [](std::size_t step) {
    std::vector<std::byte> bytes(600);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 7);
    Tensor still{.dtype = DType::kF32, .shape = {75}};
    still.data = TensorData::owned({bytes.begin(), bytes.begin() + 300});
    for (std::size_t i = 0; i < step; ++i) bytes[40 * i] ^= std::byte{3};
    Tensor moving{.dtype = DType::kBF16, .shape = {2, 150}};
    moving.data = TensorData::owned(std::move(bytes));
    return Value::dict({{"still", Value::tensor(std::move(still))},
                        {"moving", Value::tensor(std::move(moving))},
                        {"step", Value::integer(static_cast<std::int64_t>(step))}});
  };
  std::vector<std::vector<std::byte>> files;
  bool ok = true;
  for (std::size_t step = 0; step < 4; ++step) {
    SaveOptions options{.most_of_full = 10};
    std::optional<CheckpointFile> base;
    if (step > 0) {
      OpenFileOptions open;
      open.sibling = [&](const std::string& name) -> Result<std::shared_ptr<const Source>> {
        return memory_source(files[static_cast<std::size_t>(name[0] - 'a')]);
      };
      auto opened = CheckpointFile::open(files.back(), nullptr, open);
      if (!opened) return false;
      base = std::move(*opened);
      const char name = static_cast<char>('a' + step - 1);
      options.bases = {{&*base, std::string(1, name)}};
    }
    auto saved = save_to_memory(state_at(step), options);
    if (!saved) return false;
    files.push_back(std::move(*saved));
    std::vector<std::byte> set = files.back();
    for (std::size_t i = 0; i < step; ++i) {
      const ByteSpan between = as_bytes(kBetweenFiles);
      set.insert(set.end(), between.begin(), between.end());
      set.insert(set.end(), files[i].begin(), files[i].end());
    }
    ok &= write(folder, "set-" + std::to_string(step), set);
  }
  return ok;
}

// One file of each version, with a value of each type and tensors plain, quantised and empty.
bool make_gguf(const fs::path& folder) {
  bool ok = true;
  for (const std::uint32_t version : {1u, 2u, 3u}) {
    testing::GgufBytes file(4, 20, version);
    for (const std::uint32_t type : {0u, 1u, 7u}) {
      file.key("a." + std::to_string(type), type).number('\1');
      file.array("l." + std::to_string(type), type, 2).number('\0').number('\1');
    }
    for (const std::uint32_t type : {2u, 3u}) {
      file.key("a." + std::to_string(type), type).number(std::uint16_t{513});
    }
    for (const std::uint32_t type : {4u, 5u, 6u}) {
      file.key("a." + std::to_string(type), type).number(1.5f);
      file.array("l." + std::to_string(type), type, 1).number(1.5f);
    }
    for (const std::uint32_t type : {10u, 11u, 12u}) {
      file.key("a." + std::to_string(type), type).number(-1.5);
    }
    file.key("text", 8).text("llama").array("texts", 8, 2).text("").text("\xFF");
    file.key("general.alignment", 4).number(std::uint32_t{64});
    file.tensor("b.0.w", {32, 2}, 2, 0).tensor("b.0.n", {0}, 14, 64).tensor("b.1", {3, 1}, 0, 64);
    file.tensor("s", {}, 24, 128).pad(64).data(36).pad(64).data(12).pad(64).data(1);
    ok &= write(folder, "version-" + std::to_string(version), as_bytes(file.bytes()));
  }
  testing::GgufBytes part(1, 2);
  part.key("split.no", 2).number(std::uint16_t{0}).key("split.count", 2).number(std::uint16_t{2});
  part.tensor("w", {2}, 0, 0).pad().data(8);
  return ok & write(folder, "split", as_bytes(part.bytes()));
}

bool make(const fs::path& folder) {
  bool ok = true;
  int made = 0;
  for (std::uint64_t seed = 0; made < 150 && seed < 100'000; ++seed) {
    testing::RandomTree random(seed);
    const Value state = random.state();
    const Value metadata = random.metadata();
    const auto file = testing::write_file(state, metadata);
    if (!file || file->size() > kMostBytes) continue;
    const std::string name = "tree-" + std::to_string(made++);
    ok &= write(folder / "checkpoints", name, *file);
    const auto header = decode_header(*file, {}, ~std::uint64_t{0});
    ok &= header && write(folder / "indexes", name,
                          ByteSpan(*file).subspan(kHeaderBytes,
                                                  static_cast<std::size_t>(header->index_length)));
    const auto exported = safetensors(state, metadata);
    const auto compressed =
        testing::write_file(state, metadata, {.compression_level = kFastCompression});
    ok &= compressed && write(folder / "checkpoints", name + "-compressed", *compressed);
    if (!exported.empty() && exported.size() <= kMostBytes) {
      ok &= write(folder / "safetensors", name, exported);
    }
  }
  ok &= make_chunks(folder / "codec");
  ok &= make_patches(folder / "patch");
  ok &= make_sets(folder / "shards");
  ok &= make_gguf(folder / "gguf");
  // Their index and header take more than one read.
  Value many = Value::dict();
  for (int i = 0; i < 2000; ++i) {
    Tensor tensor{.dtype = DType::kU8, .shape = {1}};
    tensor.data = TensorData::owned({std::byte{1}});
    many.add("tensor." + std::to_string(i), Value::tensor(std::move(tensor)));
  }
  const auto large = testing::write_file(many);
  ok &= large && write(folder / "large", "many-tensors", *large);
  ok &= write(folder / "large", "many-tensors.safetensors", safetensors(many, Value::dict()));
  constexpr std::string_view kPaths[] = {"model/**\nmodel/layers/0/weight",
                                         "**/weight\na~1b/m~0n",
                                         "a/{b,c{d,e}}/[!a-z_]*\na/b/c",
                                         "**\n",
                                         "\n~2",
                                         "*/?/**/[0-9]\nstate/~20/-1/x",
                                         "\\*\\{\n~2-9223372036854775808",
                                         "**/**/a*b*c*d*e\n9223372036854775807/007"};
  int number = 0;
  for (const std::string_view text : kPaths) {
    ok &= write(folder / "paths", "path-" + std::to_string(number++), as_bytes(text));
  }
  return ok;
}

}  // namespace
}  // namespace espalier::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER\n");
    return 2;
  }
  if (espalier::fuzz::make(argv[1])) return 0;
  std::fprintf(stderr, "make_seeds: some seeds could not be made\n");
  return 1;
}
