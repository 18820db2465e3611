#include "qmgr/maildrop.h"

#include "lib/receive/submission/drop_file.h"

namespace pen::qmgr {

using submission::Dropped;

namespace {

constexpr std::size_t kNames = 1000;         // read from the directory at once
constexpr std::size_t kFiles = 200;          // looked at in one call to the pool
constexpr std::size_t kRecipients = 20'000;  // beyond which a call ends early

/// Where a walk through the directory is. Only one call to the pool uses it at a time.
struct Walk {
  Walk(std::string folder, std::shared_ptr<MaildropKeeper> who, std::vector<std::string> wanted)
      : directory(std::move(folder)), keeper(std::move(who)), listed(!wanted.empty()), names(std::move(wanted)) {}

  /// The next files; empty: look at done.
  Result<std::vector<Dropped>> step() {
    std::vector<Dropped> found;
    std::size_t recipients = 0;
    for (std::size_t i = 0; i < kFiles && recipients < kRecipients; ++i) {
      if (at == names.size()) {
        if (!listed) {
          if (!all) PEN_TRY(open());
          PEN_TRY_ASSIGN(names, all->next(kNames));
          at = 0;
        }
        if (at == names.size()) {
          done = true;
          break;
        }
      }
      const std::string& name = names[at++];
      PEN_TRY_ASSIGN(const auto entry, keeper ? keeper->open(name) : submission::open_drop(directory, name));
      if (!entry) continue;
      Dropped one = submission::look_at_drop(name, *entry);
      if (one.submission) recipients += one.submission->recipients.size();
      found.push_back(std::move(one));
    }
    return found;
  }

  Result<void> open() {
    if (!keeper) {
      all.emplace(directory);
      return {};
    }
    PEN_TRY_ASSIGN(Fd opened, keeper->directory());
    all.emplace(std::move(opened), directory);
    return {};
  }

  std::string directory;
  std::shared_ptr<MaildropKeeper> keeper;
  const bool listed;  // these names and no others
  std::vector<std::string> names;
  std::size_t at = 0;
  std::optional<submission::DropNames> all;
  bool done = false;
};

}  // namespace

async::Task<Result<void>> Maildrop::each(std::vector<std::string> names, See see) const {
  const auto walk = std::make_shared<Walk>(directory_, keeper_, std::move(names));
  while (!walk->done) {
    auto found = co_await pool_.run([walk] { return walk->step(); });
    if (!found) co_return fail(std::move(found).error());
    for (const Dropped& d : *found)
      if (!co_await see(d)) co_return Result<void>{};
  }
  co_return Result<void>{};
}

async::Task<Result<Maildrop::Removed>> Maildrop::remove(std::string name) const {
  auto removed = co_await pool_.run([directory = directory_, keeper = keeper_, name = std::move(name)] {
    return keeper ? keeper->remove(name) : submission::remove_drop(directory, name);
  });
  co_return removed;
}

}  // namespace pen::qmgr
