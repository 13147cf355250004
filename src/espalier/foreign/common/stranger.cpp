#include "espalier/foreign/common/stranger.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "espalier/base/ascii.h"

namespace espalier {
namespace {

constexpr std::string_view kOrbax = "it is a part of an Orbax checkpoint; open the folder of that";
constexpr std::string_view kTensorFlow =
    "it is a part of a TensorFlow checkpoint; open the file of that whose name ends with .index";
constexpr std::string_view kHdf5 =
    "it is an HDF5 file, as Keras and h5py write; open it with the command line or in Python, or "
    "convert it there: espalier convert FILE NEW.espalier";
constexpr std::string_view kTable =
    "it is a table of columns (Parquet or Arrow), as of a data set, and no checkpoint";
constexpr std::string_view kImage = "it is an image, and no checkpoint";
constexpr std::string_view kPage = "it looks like a web page instead of the downloaded file";
constexpr std::string_view kGgml =
    "it is a ggml file from before GGUF; convert it to GGUF with the tools of llama.cpp";

struct Stranger {
  std::size_t offset;
  std::string_view bytes;
  std::string_view what;
  // Also in its first kLooked bytes, if not empty.
  std::string_view text = {};
};
constexpr std::size_t kLooked = 512;
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
    {0, "MATLAB ",
     "it is a file of MATLAB (.mat); read its arrays with scipy.io.loadmat(), or with h5py from "
     "version 7.3 on, and save them with espalier.save()"},
    {0, "PAR1", kTable},
    {0, "ARROW1", kTable},
    {0, "\x89PNG", kImage},
    {0, "\xFF\xD8\xFF", kImage},
    {0, "GIF8", kImage},
    {0, "lmgg", kGgml},
    {0, "fmgg", kGgml},
    {0, "tjgg", kGgml},
    {0, "algg", kGgml},
    {0, "\x0C\xDB\x20\xDE", kOrbax},
    {4, "TFL3",
     "it is a TensorFlow Lite model; read its tensors with tf.lite.Interpreter and save them with "
     "espalier.save()"},
    {4, "ORTM",
     "it is a model in ONNX Runtime's own format (.ort), which its programs made of a model of "
     "ONNX "
     "(.onnx); open that"},
    {0, "model_checkpoint_path:", kTensorFlow},
    // For the builds that do not open it.
    {0, "\x80",
     "it is the .metadata of a distributed PyTorch checkpoint, which is a folder; open that with "
     "the command line or in Python, or convert it there: espalier convert FOLDER NEW.espalier",
     "state_dict_metadata"},
    {0, "version https://git-lfs", "it is a Git LFS pointer; run 'git lfs pull' to fetch the file"},
    {0, "{", kOrbax, "\"item_handlers\""},
    {0, "{", kOrbax, "\"tree_metadata\""},
    {0, "{",
     "it is the index of a model in several files; open it with the command line or in Python, or "
     "convert it there: espalier convert FILE NEW.espalier",
     "\"weight_map\""},
    // Not the length of a safetensors header of 123 bytes.
    {0, "{", "it looks like JSON, perhaps the error message of a failed download", "\""},
};

// Formats without a magic: by the end of a file's name.
struct Named {
  std::string_view end;
  std::string_view what;
};
constexpr Named kNamed[] = {
    {".index", "it is named as the index of a TensorFlow checkpoint and is none, or it is damaged"},
    {".pb", "it is a graph of TensorFlow; open the variables beside it: variables/variables.index"},
    {".mlmodel",
     "it is a model of Core ML, which is not read; save the weights of the model that it was made "
     "of"},
};

// For the builds that do not open it. A block of the user's may stand before the file: of 512
// bytes, or of twice as much, and so on.
bool is_hdf5(std::string_view text) {
  constexpr std::string_view kMagic = "\x89HDF\r\n";
  for (std::size_t at = 0; at < text.size(); at = at == 0 ? kLooked : 2 * at) {
    if (text.substr(at).starts_with(kMagic)) return true;
  }
  return false;
}

// Whether it begins as pages and XML do. A length of 60 is no page.
bool is_page(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return begins_in_any_case(text, "<!doctype") || begins_in_any_case(text, "<html") ||
         begins_in_any_case(text, "<?xml");
}

}  // namespace

std::string_view describe_stranger(ByteSpan front, std::string_view name) {
  const std::string_view text = as_text(front);
  for (const Stranger& stranger : kStrangers) {
    if (text.size() >= stranger.offset &&
        text.substr(stranger.offset).starts_with(stranger.bytes) &&
        text.substr(0, kLooked).find(stranger.text) != text.npos) {
      return stranger.what;
    }
  }
  if (is_hdf5(text)) return kHdf5;
  if (is_page(text)) return kPage;
  for (const Named& named : kNamed) {
    if (name.ends_with(named.end)) return named.what;
  }
  const bool is_shard = name.find(".data-") != name.npos && name.find("-of-") != name.npos;
  return is_shard ? kTensorFlow : std::string_view();
}

}  // namespace espalier
