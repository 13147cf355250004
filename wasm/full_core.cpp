// What core-full.wasm opens: Espalier files, and the formats that core-torch.wasm does not.
// wasm/src/core/choose.ts knows which module is for which file.
#include "foreign_options.h"
#include "opening_machine.h"

#include "espalier/foreign/any_opener.h"
#include "espalier/foreign/formats.h"
#include "espalier/foreign/gguf/opener.h"
#include "espalier/foreign/msgpack/opener.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/read/opener.h"
#include "espalier/read/opening_machine.h"

namespace espalier {
namespace {

// In the order of foreign/formats.cpp.
constexpr FileKind kFiles[] = {
    {looks_like_gguf, make_machine<GgufOpener>},
    {looks_like_msgpack, make_machine<MsgpackOpener>},
    {looks_like_safetensors, make_machine<SafetensorsOpener>},
};

}  // namespace

std::span<const FileKind> file_kinds() { return kFiles; }

std::unique_ptr<OpeningMachine> make_own_opener(const OpenOptions& options) {
  return make_machine<Opener>(options);
}

namespace abi {

std::unique_ptr<OpeningMachine> make_opening_machine(const OpenOptions& options) {
  return std::make_unique<AnyOpener>(foreign_options(options));
}

}  // namespace abi
}  // namespace espalier
