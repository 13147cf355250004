#include "files/save/save_format.h"

#include <algorithm>
#include <string>

namespace espalier {
namespace {

// The first ending of each format is the usual one.
constexpr std::array kEndings = {
    FormatEnding{".espalier", "an Espalier file", SaveFormat::kEspalier},
    FormatEnding{".safetensors", "a safetensors file", SaveFormat::kSafetensors},
    FormatEnding{".npy", "a NumPy array", SaveFormat::kNpy},
    FormatEnding{".raw", "raw bytes", SaveFormat::kRaw},
    FormatEnding{".bin", "raw bytes", SaveFormat::kRaw},
    FormatEnding{".npz", "a NumPy archive", std::nullopt},
    FormatEnding{".pt", "a PyTorch file", std::nullopt},
    FormatEnding{".pth", "a PyTorch file", std::nullopt},
    FormatEnding{".gguf", "a GGUF file", std::nullopt},
    FormatEnding{".onnx", "an ONNX file", std::nullopt},
    FormatEnding{".h5", "an HDF5 file", std::nullopt},
    FormatEnding{".msgpack", "a MessagePack file", std::nullopt},
    FormatEnding{".pkl", "a pickle", std::nullopt},
};

std::string_view function_name(SaveFormat format) {
  switch (format) {
    case SaveFormat::kEspalier:
      return "save()";
    case SaveFormat::kSafetensors:
      return "save_safetensors()";
    case SaveFormat::kNpy:
      return "save_npy()";
    case SaveFormat::kRaw:
      break;
  }
  return "save_raw()";
}

const FormatEnding& usual_ending(SaveFormat format) {
  return *std::find_if(kEndings.begin(), kEndings.end(),
                       [&](const FormatEnding& ending) { return ending.format == format; });
}

}  // namespace

std::string_view save_format_name(SaveFormat format) {
  return usual_ending(format).ending.substr(1);
}

const FormatEnding* find_format_ending(const std::filesystem::path& name) {
  std::string ending = name.extension().string();
  // Not std::tolower(), which depends on the locale.
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto* const at = std::find_if(kEndings.begin(), kEndings.end(),
                                      [&](const auto& known) { return known.ending == ending; });
  return at == kEndings.end() ? nullptr : at;
}

Result<void> check_format_ending(const std::filesystem::path& name, SaveFormat format) {
  const FormatEnding* const found = find_format_ending(name);
  if (found == nullptr || found->format == format) return {};
  std::string message = "the name ends in " + std::string(found->ending) + " (" +
                        std::string(found->description) + "), and this would be " +
                        std::string(usual_ending(format).description) + "; ";
  message += found->format ? "call " + std::string(function_name(*found->format))
                           : "the library does not write such files";
  message += ", or end the name in " + std::string(usual_ending(format).ending);
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace espalier
