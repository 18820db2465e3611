#include "qmgr/maildrop.h"

#include "lib/submission/drop_file.h"

namespace pen::qmgr {

using submission::Dropped;

namespace {

constexpr std::size_t kNames = 1000;         // read from the directory at once
constexpr std::size_t kFiles = 200;          // looked at in one call to the pool
constexpr std::size_t kRecipients = 20'000;  // beyond which a call ends early

/// Where a walk through the directory is. Only one call to the pool uses it at a time.
struct Walk {
  Walk(std::string folder, std::vector<std::string> wanted)
      : directory(std::move(folder)), listed(!wanted.empty()), names(std::move(wanted)) {}

  /// The next files; empty: look at done.
  Result<std::vector<Dropped>> step() {
    std::vector<Dropped> found;
    std::size_t recipients = 0;
    for (std::size_t i = 0; i < kFiles && recipients < kRecipients; ++i) {
      if (at == names.size()) {
        if (!listed) {
          if (!all) all.emplace(directory);
          PEN_TRY_ASSIGN(names, all->next(kNames));
          at = 0;
        }
        if (at == names.size()) {
          done = true;
          break;
        }
      }
      PEN_TRY_ASSIGN(auto one, submission::look_at_drop(directory, names[at++]));
      if (!one) continue;
      if (one->submission) recipients += one->submission->recipients.size();
      found.push_back(*std::move(one));
    }
    return found;
  }

  std::string directory;
  const bool listed;  // these names and no others
  std::vector<std::string> names;
  std::size_t at = 0;
  std::optional<submission::DropNames> all;
  bool done = false;
};

}  // namespace

async::Task<Result<void>> Maildrop::each(std::vector<std::string> names, See see) const {
  const auto walk = std::make_shared<Walk>(directory_, std::move(names));
  while (!walk->done) {
    auto found = co_await pool_.run([walk] { return walk->step(); });
    if (!found) co_return fail(std::move(found).error());
    for (const Dropped& d : *found)
      if (!co_await see(d)) co_return Result<void>{};
  }
  co_return Result<void>{};
}

async::Task<Result<Maildrop::Removed>> Maildrop::remove(std::string name) const {
  using State = submission::DropReader::State;
  auto removed = co_await pool_.run([directory = directory_, name = std::move(name)]() -> Result<Removed> {
    PEN_TRY_ASSIGN(auto file, submission::DropReader::open(directory, name));
    switch (file.state()) {
      case State::gone:
      case State::abandoned:
        return Removed::gone;
      case State::being_written:
        return Removed::busy;
      case State::complete:
      case State::damaged:
      case State::foreign:
        break;
    }
    PEN_TRY(file.remove());
    return Removed::yes;
  });
  co_return removed;
}

}  // namespace pen::qmgr
