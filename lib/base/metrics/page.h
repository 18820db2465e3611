#pragma once
/// The memory in which one service's programs count, shared with penapi.
///
/// Use:     master:   auto page = create_page("smtp/inet");  pass it on as kMetricsFd;
///                    reader_of(page.get()) for penapi
///          program:  adopt_page(Fd(kMetricsFd));
///          penapi:   auto reader = Reader::open(std::move(fd));  reader->add_to(sums);
/// Owns:    master holds a page as long as it lives, also over reloads: a program that is started again goes on where
///          its predecessor was killed, and two that overlap at a reload share it. So no counter goes backwards while
///          master runs.
/// Trust:   of fixed size, sealed against being cut, belongs to its maker (mode 0600): a program that has it to read
///          cannot open it to write. Numbers in it are a program's word.
/// Layout:  docs/metrics.md. The first program writes the identity of its table into it; one of another version counts
///          for itself, and penapi passes the page over: "penstock stop" and "start" make new ones.
/// Errors:  errno; foreign_layout; not_a_page.
#include <string>
#include <vector>

#include "lib/base/fd.h"
#include "lib/base/metrics/metrics.h"
#include "lib/base/result.h"

namespace pen::metrics {

enum class PageError { foreign_layout = 1, not_a_page };
inline std::string_view error_module(PageError) { return "metrics page"; }
inline std::string_view describe(PageError e) {
  switch (e) {
    case PageError::foreign_layout:
      return "made by a program of another version: figures begin again after penstock stop and start";
    case PageError::not_a_page:
      return "not a page of counters";
  }
  return "?";
}

inline constexpr std::size_t kPageBytes = 64 * 1024;

/// name: for /proc alone.
Result<Fd> create_page(const std::string& name);
/// The same page, to be read only.
Result<Fd> reader_of(int page);
/// From here on this process counts there; what it had counted before is added. Before any other thread starts.
Result<void> adopt_page(const Fd& page);

/// All counts of all pages; a value per slot.
using Sums = std::vector<std::uint64_t>;

class Reader {
 public:
  static Result<Reader> open(const Fd& page);
  Reader(Reader&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Reader& operator=(Reader&&) = delete;
  ~Reader();
  /// sums: kSlots of them. A page that nobody has counted in adds nothing. Errors: foreign_layout.
  Result<void> add_to(Sums& sums) const;

 private:
  explicit Reader(const void* memory) : memory_(memory) {}
  const void* memory_;
};

}  // namespace pen::metrics
