#include "qmgr/orphan_pass.h"

namespace pen::qmgr {

OrphanPass::OrphanPass(queue_log::QueueLog& log, spool::Spool& spool, BodyOf body_of, Missing missing)
    : log_(log), spool_(spool), body_of_(std::move(body_of)), missing_(std::move(missing)) {}
OrphanPass::~OrphanPass() = default;

OrphanPass::Step OrphanPass::step(std::size_t slice) {
  if (!scan_) {
    figures_.found = spool_.figures().unknown;
    if (figures_.found == 0) {
      spool_.sweep();
      return Step::ended;
    }
    scan_ = log_.scan(queue_log::InTransit::shown);
  }
  if (const int pass = scan_->second_pass() ? 2 : 1; passes_begun_ < pass) {
    if (!scan_->settled()) {
      log_.commits().flush();
      return Step::unsettled;
    }
    passes_begun_ = pass;
  }
  auto some = scan_->step(slice);
  if (!some) {
    gave_up_ = {{}, some.error().message()};
    return Step::given_up;
  }
  for (const auto& listed : *some) {
    if (listed.self_contained) {  // most are, and their envelopes need not be read
      ++figures_.messages;
      continue;
    }
    const auto stored = log_.runners().read(listed.place);
    // Ended, or moved to where the scan meets it again.
    if (!stored && stored.error().is(queue_log::QueueLogError::not_found)) continue;
    const auto body = stored ? body_of_(*stored) : std::nullopt;
    if (!body) {  // its file must not be taken for an orphan
      gave_up_ = {listed.queue_id, "its envelope is damaged, so that its spool file is not known"};
      return Step::given_up;
    }
    ++figures_.messages;
    if (*body == 0 || spool_.referenced(*body)) continue;
    ++figures_.missing;
    missing_(listed.queue_id);
  }
  if (!scan_->done()) return Step::more;
  scan_.reset();
  if (log_.restart().report().damage_count != 0) {  // the owners of the files that were named there are not known
    gave_up_ = {{}, "the queue log is damaged"};
    return Step::given_up;
  }
  figures_.orphans = spool_.figures().unknown;
  spool_.sweep();
  return Step::ended;
}

}  // namespace pen::qmgr
