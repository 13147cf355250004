#include <algorithm>
#include <optional>
#include <vector>

#include "mutators/mutator.h"

#include "espalier/bytes.h"
#include "espalier/foreign/common/protobuf.h"
#include "espalier/foreign/onnx/fields.h"

namespace espalier::fuzz {
namespace {

constexpr int kMostDeep = 40;

// A message as its fields, of which some are messages again.
struct Part {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;
  Bytes contents;
  bool is_message = false;
  std::vector<Part> parts;
};

// Nothing if these bytes are no such message.
std::optional<std::vector<Part>> read_parts(ByteSpan bytes, OnnxMessage message, int depth) {
  WireMessage fields(bytes);
  std::vector<Part> parts;
  while (const WireField* field = fields.next()) {
    Part part{field->number, field->type, field->value, {}, false, {}};
    if (field->type == WireType::kBytes) {
      const ByteSpan contents = fields.contents(*field);
      const auto* first = reinterpret_cast<const std::uint8_t*>(contents.data());
      part.contents.assign(first, first + contents.size());
      const OnnxField& known = onnx_field(message, field->number);
      if (known.what == OnnxField::What::kMessage && depth < kMostDeep) {
        if (auto inner = read_parts(contents, known.message, depth + 1)) {
          part.is_message = true;
          part.parts = std::move(*inner);
        }
      }
    }
    parts.push_back(std::move(part));
  }
  if (fields.is_bad()) return std::nullopt;
  return parts;
}

void append_number(Bytes& out, std::uint64_t number) {
  for (; number > 0x7F; number >>= 7) out.push_back(static_cast<std::uint8_t>(number | 0x80));
  out.push_back(static_cast<std::uint8_t>(number));
}

Bytes written(const std::vector<Part>& parts) {
  Bytes out;
  for (const Part& part : parts) {
    append_number(out, std::uint64_t{part.number} << 3 | static_cast<std::uint64_t>(part.type));
    if (part.type == WireType::kVarint) {
      append_number(out, part.value);
    } else if (part.type == WireType::kBytes) {
      const Bytes contents = part.is_message ? written(part.parts) : part.contents;
      append_number(out, contents.size());
      out.insert(out.end(), contents.begin(), contents.end());
    } else {
      for (int i = 0; i < (part.type == WireType::kFixed32 ? 4 : 8); ++i) {
        out.push_back(static_cast<std::uint8_t>(part.value >> (8 * i)));
      }
    }
  }
  return out;
}

void collect(std::vector<Part>& parts, std::vector<std::vector<Part>*>& lists) {
  if (!parts.empty()) lists.push_back(&parts);
  for (Part& part : parts) collect(part.parts, lists);
}

void change(std::vector<Part>& model, testing::Random& random, const MutateBytes& mutate) {
  std::vector<std::vector<Part>*> lists;
  collect(model, lists);
  if (lists.empty()) return;
  std::vector<Part>& parts = *random.pick(lists);
  const auto at = static_cast<std::size_t>(random.below(parts.size()));
  Part& part = parts[at];
  switch (random.below(6)) {
    case 0: {
      // From anywhere else, where it may mean something else.
      const std::vector<Part>& from = *random.pick(lists);
      const Part copy = random.pick(from);
      parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(at), copy);
      return;
    }
    case 1:
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 2:
      std::swap(parts[at], parts[static_cast<std::size_t>(random.below(parts.size()))]);
      return;
    case 3:
      part.number =
          static_cast<std::uint32_t>(random.one_in(4) ? random.below(40) + 1 : part.number ^ 1) |
          (part.number == 1 ? 2u : 0u);
      return;
    default:
      break;
  }
  if (part.type == WireType::kBytes && !part.is_message) {
    part.contents = mutate_anything(part.contents, part.contents.size() + 16, mutate);
  } else if (part.type == WireType::kBytes) {
    const Part copy = part;
    part.parts.push_back(copy);
  } else {
    part.value = random.one_in(2) ? random.below(40) : random.bits() >> random.below(64);
  }
}

}  // namespace

Bytes mutate_onnx(const Bytes& file, std::size_t most, testing::Random& random,
                  const MutateBytes& mutate) {
  auto model = read_parts(view(file), OnnxMessage::kModel, 0);
  if (!model || model->empty() || random.one_in(10)) return mutate_anything(file, most, mutate);
  do {
    change(*model, random, mutate);
  } while (random.one_in(2));
  Bytes out = written(*model);
  return out.size() <= most ? out : mutate_anything(file, most, mutate);
}

}  // namespace espalier::fuzz
