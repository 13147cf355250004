#include <algorithm>
#include <cstring>
#include <optional>

#include "mutators/mutator.h"

#include "espalier/bytes.h"

namespace espalier::fuzz {
namespace {

constexpr int kDeepest = 32;

// An object: a head byte, its length or count, and then either bytes or further objects.
struct Object {
  enum class Form : std::uint8_t { kScalar, kText, kBinary, kExtension, kArray, kMap };
  Form form = Form::kScalar;
  Bytes body;                    // of a scalar with its head; of an extension with its type
  std::vector<Object> children;  // of a map keys and values by turns
};
using Form = Object::Form;

// The forms whose length or count has `width` bytes, by the head byte.
struct Head {
  Form form;
  std::size_t width;
};
std::optional<Head> sized_head(std::uint8_t head) {
  switch (head) {
    case 0xC4:
    case 0xC5:
    case 0xC6:
      return Head{Form::kBinary, std::size_t{1} << (head - 0xC4)};
    case 0xC7:
    case 0xC8:
    case 0xC9:
      return Head{Form::kExtension, std::size_t{1} << (head - 0xC7)};
    case 0xD9:
    case 0xDA:
    case 0xDB:
      return Head{Form::kText, std::size_t{1} << (head - 0xD9)};
    case 0xDC:
    case 0xDD:
      return Head{Form::kArray, std::size_t{2} << (head - 0xDC)};
    case 0xDE:
    case 0xDF:
      return Head{Form::kMap, std::size_t{2} << (head - 0xDE)};
    default:
      return std::nullopt;
  }
}

// Bytes of a scalar without its head.
std::size_t scalar_bytes(std::uint8_t head) {
  switch (head) {
    case 0xCA:
    case 0xCE:
    case 0xD2:
      return 4;
    case 0xCB:
    case 0xCF:
    case 0xD3:
      return 8;
    case 0xCC:
    case 0xD0:
      return 1;
    case 0xCD:
    case 0xD1:
      return 2;
    default:
      return 0;
  }
}

class Reader {
 public:
  explicit Reader(const Bytes& file) : file_(file) {}

  // What is cut short ends with the file.
  Object read(int depth) {
    Object object;
    if (at_ == file_.size()) return object;
    const std::uint8_t head = file_[at_];
    if (depth == kDeepest) return scalar(file_.size() - at_);
    if (head < 0x80 || head >= 0xE0) return scalar(1);
    if (head < 0x90) return container(1, Form::kMap, head & 0x0F, depth);
    if (head < 0xA0) return container(1, Form::kArray, head & 0x0F, depth);
    if (head < 0xC0) return bytes(1, Form::kText, head & 0x1F);
    if (head >= 0xD4 && head <= 0xD8) {  // extensions of 1, 2, 4, 8 and 16 bytes
      return bytes(1, Form::kExtension, 1 + (std::size_t{1} << (head - 0xD4)));
    }
    const auto sized = sized_head(head);
    if (!sized) return scalar(1 + scalar_bytes(head));
    std::size_t number = 0;
    for (std::size_t i = 1; i <= sized->width && at_ + i < file_.size(); ++i) {
      number = number << 8 | file_[at_ + i];
    }
    const std::size_t begin = 1 + sized->width;
    if (sized->form == Form::kArray || sized->form == Form::kMap) {
      return container(begin, sized->form, number, depth);
    }
    return bytes(begin, sized->form, number + (sized->form == Form::kExtension ? 1 : 0));
  }

 private:
  Bytes take(std::size_t count) {
    const auto first = file_.begin() + static_cast<std::ptrdiff_t>(at_);
    count = std::min(count, file_.size() - at_);
    at_ += count;
    return {first, first + static_cast<std::ptrdiff_t>(count)};
  }
  Object scalar(std::size_t count) { return {Form::kScalar, take(count), {}}; }
  Object bytes(std::size_t head, Form form, std::size_t count) {
    take(head);
    return {form, take(count), {}};
  }
  Object container(std::size_t head, Form form, std::size_t count, int depth) {
    take(head);
    Object object{form, {}, {}};
    if (form == Form::kMap) count *= 2;
    for (std::size_t i = 0; i < count && at_ < file_.size(); ++i) {
      object.children.push_back(read(depth + 1));
    }
    return object;
  }

  const Bytes& file_;
  std::size_t at_ = 0;
};

void append_head(Bytes& out, std::uint8_t head, std::uint64_t number, std::size_t width) {
  out.push_back(head);
  for (std::size_t i = width; i-- > 0;) out.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
}

// With heads of the largest width, which every reader must take.
void append(Bytes& out, const Object& object) {
  const std::size_t size = object.body.size();
  switch (object.form) {
    case Form::kScalar:
      break;
    case Form::kText:
      size < 32 ? out.push_back(static_cast<std::uint8_t>(0xA0 + size))
                : append_head(out, 0xDB, size, 4);
      break;
    case Form::kBinary:
      append_head(out, 0xC6, size, 4);
      break;
    case Form::kExtension:
      append_head(out, 0xC9, size == 0 ? 0 : size - 1, 4);
      break;
    case Form::kArray:
      append_head(out, 0xDC, object.children.size(), 2);
      break;
    case Form::kMap:
      append_head(out, 0xDE, object.children.size() / 2, 2);
      break;
  }
  out.insert(out.end(), object.body.begin(), object.body.end());
  for (const Object& child : object.children) append(out, child);
}

void collect(Object& object, std::vector<Object*>& all) {
  all.push_back(&object);
  for (Object& child : object.children) collect(child, all);
}

void change(Object& root, std::size_t spare, testing::Random& random, const MutateBytes& mutate) {
  std::vector<Object*> all;
  collect(root, all);
  Object& object = *random.pick(all);
  if (object.form == Form::kExtension && random.one_in(2)) {  // an array is an object itself
    const std::uint8_t type = object.body.empty() ? 1 : object.body[0];
    const Bytes inner(object.body.begin() + (object.body.empty() ? 0 : 1), object.body.end());
    Object parsed = Reader(inner).read(kDeepest - 2);
    change(parsed, spare, random, mutate);
    object.body = {type};
    append(object.body, parsed);
    return;
  }
  if (object.children.empty()) {
    if (random.one_in(3)) {
      const Object other = *random.pick(all);
      object = other;
    } else {
      object.body = mutate_anything(std::move(object.body), object.body.size() + spare, mutate);
    }
    return;
  }
  const std::size_t step = object.form == Form::kMap ? 2 : 1;
  const auto place = [&] {
    return object.children.begin() +
           static_cast<std::ptrdiff_t>(random.below(object.children.size() / step) * step);
  };
  if (object.children.size() < step) return;
  const auto at = place();
  const auto end = at + static_cast<std::ptrdiff_t>(step);
  switch (random.below(3)) {
    case 0:
      object.children.erase(at, end);
      break;
    case 1:
      std::swap_ranges(at, end, place());
      break;
    default: {
      const std::vector<Object> copied(at, end);
      object.children.insert(place(), copied.begin(), copied.end());
      break;
    }
  }
}

}  // namespace

Bytes mutate_msgpack(const Bytes& file, std::size_t most, testing::Random& random,
                     const MutateBytes& mutate) {
  if (most < file.size() || random.one_in(8)) return mutate_anything(file, most, mutate);
  Object root = Reader(file).read(0);
  change(root, most - file.size(), random, mutate);
  Bytes made;
  append(made, root);
  if (random.one_in(8)) change_numbers(made, random);
  return made.size() <= most ? made : mutate_anything(file, most, mutate);
}

}  // namespace espalier::fuzz
