#pragma once
/// What every part of the queue log works with: the storage, the settings, the clock, and what is counted. Private to
/// lib/queue/queue_log.
///
/// Owns:    the counts. Storage, Clock and Random are the caller's and outlive the log.
/// Fails:   `failed` is set once, when the storage fails, and then every call of the log answers io_error.
#include <utility>

#include "lib/base/random.h"
#include "lib/base/time.h"
#include "lib/queue/queue_log/options.h"
#include "lib/queue/queue_log/report.h"
#include "lib/queue/queue_log/storage.h"

namespace pen::queue_log {

struct Surroundings {
  Surroundings(Storage& s, Options o, const Clock& c, Random& r)
      : storage(s), options(std::move(o)), clock(c), random(r) {}

  Storage& storage;
  Options options;
  const Clock& clock;
  Random& random;
  std::uint32_t epoch = 1;  // of this process
  bool failed = false;
  Figures figures;
  std::uint64_t grown = 0;  // bytes of records and segment headers that this process appended
};

}  // namespace pen::queue_log
