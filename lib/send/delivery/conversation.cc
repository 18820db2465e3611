#include "lib/send/delivery/conversation.h"

namespace pen::delivery {

Result<void> Conversation::map_stages(const ipc::delivery::StagePage& page, std::span<Fd> fds) {
  if (fds.size() != 1) return out_of_place("stage page without its descriptor");
  if (stages_.mapped()) return out_of_place("second stage page");
  return stages_.map(fds[0].get(), page.slots);
}

void Conversation::break_off(Error error) {
  broken_off_ = std::move(error).within("answer");
  channel_.close();
}

Error Conversation::end(Error received) { return broken_off_ ? *std::exchange(broken_off_, {}) : std::move(received); }

Result<ipc::Content> take_content(ipc::delivery::Job& job, std::span<Fd> fds) {
  auto content = ipc::take_content(job.inline_body, fds, job.body_offset, job.body.size);
  job.inline_body = {};
  return content;
}

}  // namespace pen::delivery
