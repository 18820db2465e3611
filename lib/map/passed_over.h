#pragma once
/// The lines of a table that cannot be read, and are passed over while the rest of the table serves: as Postfix has it,
/// for a host must not stop because one rule of many has a slip in it. Map::notes() reports them (notes.h).
///
/// Use:     passed_over.add("FILE, line N: why");  …  return passed_over.notes();
/// Bounds:  the first kMax are kept, for a file may be anything; of the others the number.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pen::map {

class PassedOver {
 public:
  static constexpr std::size_t kMax = 50;

  void add(std::string what) {
    if (kept_.size() < kMax)
      kept_.push_back(std::move(what) + ": the line is passed over; put it right");
    else
      ++more_;
  }
  /// file: the file that the lines are in.
  std::vector<std::string> notes(std::string_view file) const {
    std::vector<std::string> all = kept_;
    if (more_ != 0) all.push_back(std::string(file) + ": and " + std::to_string(more_) + " more such lines");
    return all;
  }

 private:
  std::vector<std::string> kept_;
  std::size_t more_ = 0;
};

}  // namespace pen::map
