// Prints a line of JSON for each node of a checkpoint that is no container: its path and kind, and
// of a tensor dtype, shape, block and the CRC-32 of its elements as a program reads them.
//
//   list_tensors FILE
#include <iostream>
#include <string>

#include "espalier/base/json_text.h"
#include "espalier/checkpoint_file.h"
#include "espalier/foreign/zip/inflate.h"
#include "espalier/walker.h"

namespace {

using namespace espalier;

int fail_with(const Error& error) {
  std::cerr << error.describe() << '\n';
  return 3;
}

void describe(std::string& line, const TensorRef& tensor) {
  line += ",\"dtype\":\"" + std::string(dtype_name(tensor.dtype())) + "\",\"shape\":";
  append_json_array(line, tensor.shape());
  if (tensor.dtype() == DType::kOpaque) {
    line += ",\"block\":[";
    append_json_string(line, tensor.block().name);
    line += ',' + std::to_string(tensor.block().elements) + ',' +
            std::to_string(tensor.block().bytes) + ']';
  }
  line += ",\"bytes\":" + std::to_string(tensor.bytes());
}

int list(const char* name) {
  const auto file = CheckpointFile::open(name);
  if (!file) return fail_with(file.error());
  Walker walker(file->checkpoint().state());
  while (walker.next()) {
    const NodeRef node = walker.node();
    if (is_container(node.kind())) continue;
    std::string line = "{\"path\":";
    append_json_string(line, walker.path());
    line += ",\"kind\":\"" + std::string(kind_name(node.kind())) + '"';
    if (const auto tensor = node.tensor()) {
      describe(line, *tensor);
      if (!tensor->is_placeholder()) {
        const auto elements = file->slice(*tensor, {});
        if (!elements) return fail_with(elements.error());
        const auto bytes = elements->bytes();
        line += ",\"crc32\":" + std::to_string(crc32_after(0, bytes));
      }
    }
    std::cout << line << "}\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return list(argv[1]);
  std::cerr << "usage: list_tensors FILE\n";
  return 2;
}
