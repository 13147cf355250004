#include "espalier/foreign/stranger.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace espalier {
namespace {

constexpr std::string_view kPickle =
    "it looks like a pickle, as older PyTorch writes, which can run code when it is loaded; if you "
    "trust it, load it with torch.load(FILE, weights_only=True) and save its tensors with "
    "safetensors.torch.save_file()";

struct Stranger {
  std::size_t offset;
  std::string_view bytes;
  std::string_view what;
};
// The first one that fits counts.
constexpr Stranger kStrangers[] = {
    {0, "\x28\xB5\x2F\xFD", "it is compressed with zstd; unpack it first: zstd -dc FILE > NEW"},
    {0, "\xFD\x37zXZ", "it is compressed with xz; unpack it first: xz -dc FILE > NEW"},
    {0, "BZh", "it is compressed with bzip2; unpack it first: bzip2 -dc FILE > NEW"},
    {0, "\x1F\x8B", "it is compressed with gzip; unpack it first: gzip -dc FILE > NEW"},
    {0, "\x04\x22\x4D\x18", "it is compressed with lz4; unpack it first: lz4 -dc FILE > NEW"},
    {0, "7z\xBC\xAF\x27\x1C", "it is a 7z archive; unpack it first: 7z x FILE"},
    {0, "Rar!\x1A\x07", "it is a RAR archive; unpack it first"},
    {257, "ustar", "it is a tar archive; unpack it first: tar -xf FILE"},
    {0, "GGUF",
     "it is a GGUF file, as llama.cpp writes; use the model's safetensors files instead"},
    {0, "\x93NUMPY",
     "it is a numpy array (.npy); load it with numpy.load(FILE) and save it with "
     "safetensors.numpy.save_file()"},
    {0, "\x89HDF\r\n",
     "it is an HDF5 file, as Keras and h5py write; load its arrays with h5py and save them with "
     "safetensors.numpy.save_file()"},
    {0, "\x80\x02", kPickle},
    {0, "\x80\x03", kPickle},
    {0, "\x80\x04", kPickle},
    {0, "\x80\x05", kPickle},
    {0, "version https://git-lfs", "it is a Git LFS pointer; run 'git lfs pull' to fetch the file"},
    {0, "<", "it looks like a web page instead of the downloaded file"},
};

// What a zip archive is tells the name of its first entry.
std::string_view describe_zip(std::string_view front) {
  constexpr std::size_t kNameLength = 26;
  constexpr std::size_t kName = 30;
  if (front.size() < kName) return "it is a zip archive that has been cut";
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(front[i]); };
  const std::size_t length = byte(kNameLength) + (std::size_t{byte(kNameLength + 1)} << 8);
  const std::string_view name = front.substr(kName, length);
  if (name.ends_with(".npy")) {
    return "it is a numpy archive (.npz); load it with numpy.load(FILE) and save its arrays with "
           "safetensors.numpy.save_file()";
  }
  if (name.ends_with("/data.pkl")) {
    return "it is a PyTorch file (a zip archive with a pickle); load it with torch.load(FILE, "
           "weights_only=True) and save its tensors with safetensors.torch.save_file()";
  }
  return "it is a zip archive; unpack it first: unzip FILE";
}

std::string_view describe_json(std::string_view front) {
  // Such an index may begin with its metadata, but that is short.
  if (front.find("\"weight_map\"") != std::string_view::npos) {
    return "it is the index of a model in several safetensors files; open the files that it names "
           "in weight_map, one at a time";
  }
  return "it looks like JSON, perhaps the error message of a failed download";
}

}  // namespace

std::string_view describe_stranger(ByteSpan front) {
  const std::string_view text = as_text(front);
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return describe_zip(text);
  if (text.starts_with("{")) return describe_json(text);
  for (const Stranger& stranger : kStrangers) {
    if (text.size() >= stranger.offset &&
        text.substr(stranger.offset).starts_with(stranger.bytes)) {
      return stranger.what;
    }
  }
  return {};
}

}  // namespace espalier
