#include "support/ten_kinds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string_view>
#include <utility>

#include "support/random.h"

#include "espalier/base/little_endian.h"
#include "espalier/bytes.h"

namespace espalier::testing {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

constexpr ElementLayout kByte{1, false};
constexpr ElementLayout kBF16{2, true};
constexpr ElementLayout kF32{4, true};
constexpr ElementLayout kF64{8, true};
constexpr ElementLayout kI32{4, false};
constexpr ElementLayout kI64{8, false};

template <class T, class Make>
Bytes elements(std::size_t n, const Make& make) {
  Bytes bytes(n * sizeof(T));
  for (std::size_t i = 0; i < n; ++i) {
    store_le(bytes.data() + i * sizeof(T), static_cast<T>(make(i)));
  }
  return bytes;
}

template <class Make>
Floats floats(std::size_t n, const Make& make) {
  Floats values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(make(i));
  return values;
}

Bytes as_f32(const Floats& values) {
  return elements<float>(values.size(), [&](std::size_t i) { return values[i]; });
}

Bytes as_bf16(const Floats& values) {
  return elements<std::uint16_t>(values.size(), [&](std::size_t i) {
    return (bits_as<std::uint32_t>(values[i]) + 0x8000u) >> 16;
  });
}

// Twelve uniform numbers are as good as normal here, and the same with every standard library.
double gaussian(Random& random) {
  std::int64_t sum = 0;
  for (int i = 0; i < 12; ++i) sum += static_cast<std::int64_t>(random.below(1 << 16));
  return static_cast<double>(sum - 6 * (1 << 16)) / (1 << 16);
}

// Ids as frequent as words: half as often where the id doubles.
std::uint64_t word(Random& random) {
  return (std::uint64_t{1} << random.below(11)) + random.below(1 << 10) % 37;
}

class Kinds {
 public:
  std::vector<KindOfTensor> all;

  void add(std::string name, ElementLayout layout, Bytes bytes) {
    all.push_back({std::move(name), layout, std::move(bytes)});
  }
  void add_floats(const std::string& name, const Floats& values) {
    add(name + ", f32", kF32, as_f32(values));
    add(name + ", bf16", kBF16, as_bf16(values));
  }

  void weights() {
    Random random(1);
    const Floats rows = floats(kElements, [&](std::size_t) { return 0.02 * gaussian(random); });
    add_floats("weights: linear", rows);
    add("weights: linear, f64 of f32", kF64,
        elements<double>(kElements / 2, [&](std::size_t i) { return rows[i]; }));
  }

  void moments() {
    Random random(2);
    std::vector<double> scales(kColumns);
    for (double& scale : scales) scale = std::exp2(2 * gaussian(random));
    add_floats("moments: second", floats(kElements, [&](std::size_t i) {
                 const double gradient = gaussian(random) * scales[i % kColumns];
                 return 1e-6 * (gradient * gradient + 0.1 * scales[i % kColumns]);
               }));
    // The last quarter of each row is padding with tiny gradients, all alike.
    add_floats("moments: padded vocabulary", floats(kElements, [&](std::size_t i) {
                 const bool used = i % 4096 < 3072;
                 return used ? 1e-4 * gaussian(random) : 1e-9 * (1.2 + 0.1 * gaussian(random));
               }));
  }

  void sines() {
    constexpr double kTurn = 2 * std::numbers::pi;
    add("sines: spectrogram basis, f32", kF32, as_f32(floats(258 * 256, [](std::size_t i) {
          const std::size_t whole = i / 256;
          const auto row = static_cast<double>(whole);
          const auto n = static_cast<double>(i % 256);
          const double window = 0.5 - 0.5 * std::cos(kTurn * n / 256);
          return window * (row < 129 ? std::cos(kTurn * row * n / 256)
                                     : -std::sin(kTurn * (row - 129) * n / 256));
        })));
    const auto angle = [](std::size_t row, std::size_t column, double columns) {
      return static_cast<double>(row) * std::pow(1e4, -static_cast<double>(column) / columns);
    };
    add("sines: positions, f32", kF32, as_f32(floats(kElements, [&](std::size_t i) {
          const double turn = angle(i / 256, i % 256 / 2, 128);
          return i % 2 == 0 ? std::sin(turn) : std::cos(turn);
        })));
    const auto rotary = [&](std::size_t i) { return std::sin(angle(i / 64, i % 32, 32)); };
    add_floats("sines: rotary", floats(kElements, rotary));
  }

  void masks() {
    Random random(3);
    constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
    add_floats("masks: causal", floats(kElements, [](std::size_t i) {
                 return i % 256 > i / 256 % 256 ? kMinusInfinity : 0.0F;
               }));
    add("masks: causal, bool", kByte,
        elements<std::uint8_t>(kElements, [](std::size_t i) { return i % 512 > i / 512 ? 0 : 1; }));
    add("masks: dropout, bool", kByte,
        elements<std::uint8_t>(kElements, [&](std::size_t) { return random.one_in(10) ? 0 : 1; }));
    add("masks: dropout, f32", kF32, as_f32(floats(kElements / 2, [&](std::size_t) {
          return random.one_in(10) ? 0.0 : 1 / 0.9;
        })));
  }

  void ids() {
    Random random(4);
    add("ids: tokens, i64", kI64,
        elements<std::int64_t>(kElements / 4, [&](std::size_t) { return word(random); }));
    std::uint64_t last = 0;
    add("ids: sorted, i64", kI64, elements<std::int64_t>(kElements / 4, [&](std::size_t) {
          return last += 1 + random.below(700);
        }));
    std::uint64_t row = 0;
    add("ids: rows of a sparse matrix, i64", kI64,
        elements<std::int64_t>(kElements / 4,
                               [&](std::size_t) { return row += random.one_in(9) ? 1 : 0; }));
    std::vector<std::uint64_t> hot(512);
    for (std::uint64_t& column : hot) column = word(random) % 256;
    const auto one_hot = [&](std::size_t i) { return hot[i / 256] == i % 256 ? 1 : 0; };
    add("ids: one-hot, bool", kByte, elements<std::uint8_t>(512 * 256, one_hot));
    add("ids: one-hot, f32", kF32, as_f32(floats(512 * 256, one_hot)));
  }

  void embeddings() {
    Random random(5);
    const Floats trained = floats(kElements, [&](std::size_t) { return 0.02 * gaussian(random); });
    for (const int percent : {4, 10, 50}) {
      Floats rows = trained;
      for (std::size_t row = 0; row < kElements / kColumns; ++row) {
        if (random.below(100) >= static_cast<std::uint64_t>(percent)) continue;
        std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(row * kColumns), kColumns, 0.0F);
      }
      add_floats("embeddings: " + std::to_string(percent) + "% unused", rows);
    }
    Floats shared = trained;
    for (std::size_t row = 0; row < kElements / kColumns; ++row) {
      const auto from = static_cast<std::ptrdiff_t>(random.below(800) * kColumns);
      std::copy_n(trained.begin() + from, kColumns,
                  shared.begin() + static_cast<std::ptrdiff_t>(row * kColumns));
    }
    add_floats("embeddings: shared rows", shared);
  }

  void codes() {
    Random random(6);
    const std::vector<int> codes = [&] {
      std::vector<int> made(kElements);
      for (int& code : made) code = std::clamp(static_cast<int>(gaussian(random) * 2.5), -8, 7);
      return made;
    }();
    add("codes: int8", kByte, elements<std::int8_t>(kElements, [&](std::size_t) {
          return std::clamp(gaussian(random) * 40, -127.0, 127.0);
        }));
    add("codes: 4 bits in bytes", kByte,
        elements<std::int8_t>(kElements, [&](std::size_t i) { return codes[i]; }));
    add("codes: 4 bits in i32", kI32, elements<std::int32_t>(kElements / 8, [&](std::size_t i) {
          std::uint32_t packed = 0;
          for (std::size_t k = 0; k < 8; ++k) {
            packed |= (static_cast<std::uint32_t>(codes[8 * i + k]) & 15u) << (4 * k);
          }
          return packed;
        }));
    std::vector<double> scales(kElements / 32);
    for (double& scale : scales) scale = 0.01 * (1 + std::abs(gaussian(random)));
    add_floats("codes: of 4 bits, as floats",
               floats(kElements, [&](std::size_t i) { return codes[i] * scales[i / 32]; }));
  }

  void images() {
    Random random(7);
    constexpr std::size_t kSide = 384;
    // Each pixel is near the mean of the one to the left and the one above.
    std::vector<std::uint8_t> pixels(kSide * kSide);
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const int left = i % kSide != 0 ? pixels[i - 1] : 128;
      const int above = i >= kSide ? pixels[i - kSide] : 128;
      const int noise = static_cast<int>(gaussian(random) * 4);
      pixels[i] = static_cast<std::uint8_t>(std::clamp((left + above) / 2 + noise, 0, 255));
    }
    add("images: landscape, u8", kByte,
        elements<std::uint8_t>(pixels.size(), [&](std::size_t i) { return pixels[i]; }));
    add_floats("images: landscape",
               floats(pixels.size(), [&](std::size_t i) { return pixels[i] / 255.0; }));
    // A diagram: boxes of one colour on a background.
    std::vector<std::uint8_t> diagram(kSide * kSide, 250);
    for (int box = 0; box < 60; ++box) {
      const std::size_t x = random.below(kSide - 60);
      const std::size_t y = random.below(kSide - 40);
      for (std::size_t i = 0; i < 40; ++i) {
        std::fill_n(diagram.begin() + static_cast<std::ptrdiff_t>((y + i) * kSide + x), 60,
                    static_cast<std::uint8_t>(box * 4));
      }
    }
    add("images: diagram, u8", kByte,
        elements<std::uint8_t>(diagram.size(), [&](std::size_t i) { return diagram[i]; }));
    add("images: diagram, f32", kF32,
        as_f32(floats(diagram.size(), [&](std::size_t i) { return diagram[i] / 255.0 - 0.45; })));
  }

  void counters() {
    Random random(8);
    const auto count = [](std::size_t i) { return i; };
    add("counters: positions, i64", kI64, elements<std::int64_t>(kElements / 4, count));
    add("counters: positions, f32", kF32, as_f32(floats(kElements, count)));
    add("counters: steps, f32", kF32, as_f32(Floats(kElements / 4, 12'000)));
    constexpr double kRates = kElements / 4.0;
    add("counters: learning rates, f64", kF64, elements<double>(kElements / 4, [](std::size_t i) {
          return 5e-4 * (1 + std::cos(std::numbers::pi * static_cast<double>(i) / kRates));
        }));
    std::uint64_t now = 1'750'000'000'000'000'000;
    add("counters: times, i64", kI64, elements<std::int64_t>(kElements / 4, [&](std::size_t) {
          return now += 90'000'000 + random.below(20'000'000);
        }));
  }

  void text() {
    Random random(9);
    constexpr std::string_view kLetters = "etaoinshrdlucmfwypvbgkjqxz";
    std::vector<std::string> words(3'000);
    for (std::string& text : words) {
      for (std::size_t n = 2 + random.below(7); n > 0; --n) {
        text += kLetters[std::min(random.below(26), random.below(26))];
      }
    }
    std::string text;
    std::string log;
    while (text.size() < kElements) text += words[word(random)] + (random.one_in(9) ? ".\n" : " ");
    for (int step = 0; log.size() < kElements; ++step) {
      log += "{\"step\": " + std::to_string(step) +
             ", \"loss\": " + std::to_string(2 + random.below(100)) + ", \"note\": \"" +
             words[word(random)] + "\"}\n";
    }
    const auto bytes_of = [](const std::string& from) {
      return elements<char>(from.size(), [&](std::size_t i) { return from[i]; });
    };
    add("text: words", kByte, bytes_of(text));
    add("text: log", kByte, bytes_of(log));
    add("text: code points, u32", kI32,
        elements<std::uint32_t>(text.size() / 2, [&](std::size_t i) { return text[i]; }));
  }

 private:
  static constexpr std::size_t kElements = 1 << 17;
  static constexpr std::size_t kColumns = 96;
};

}  // namespace

std::vector<KindOfTensor> ten_kinds() {
  Kinds kinds;
  kinds.weights();
  kinds.moments();
  kinds.sines();
  kinds.masks();
  kinds.ids();
  kinds.embeddings();
  kinds.codes();
  kinds.images();
  kinds.counters();
  kinds.text();
  return std::move(kinds.all);
}

}  // namespace espalier::testing
