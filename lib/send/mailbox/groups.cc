#include "lib/send/mailbox/groups.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace pen::mailbox {

mail::DeliveryStatus Groups::store(const Target& target, const Message& message, const Content& content,
                                   const CalledOff& called_off) {
  if (target.form == Form::maildir)
    return store_maildir(target, message, content, called_off, [this](int fd) { return sync_directory(fd); });
  Waiting mine{.delivery = {&message, &content, &called_off, {}}};
  const std::string key = encode(target);
  std::unique_lock lock(mutex_);
  auto& entry = lines_[key];
  if (!entry) entry = std::make_shared<Line>();
  const auto line = entry;
  line->waiting.push_back(&mine);
  line->moved.wait(lock, [&] { return mine.done || !line->busy; });
  while (!mine.done) {
    line->busy = true;
    std::vector<Waiting*> group;
    std::vector<MboxDelivery*> deliveries;
    while (!line->waiting.empty() && group.size() < kMost) {
      group.push_back(line->waiting.front());
      deliveries.push_back(&group.back()->delivery);
      line->waiting.pop_front();
    }
    lock.unlock();
    store_mbox(target, deliveries);
    lock.lock();
    for (Waiting* each : group) each->done = true;
    line->busy = false;
    line->moved.notify_all();
  }
  // A waiting thread uses the line too.
  if (line->waiting.empty() && !line->busy) lines_.erase(key);
  return std::move(mine.delivery.status);
}

Result<void> Groups::sync_directory(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("fstat");
  const auto key = std::pair(st.st_dev, st.st_ino);
  std::unique_lock lock(mutex_);
  auto& entry = directories_[key];
  if (!entry) entry = std::make_shared<Directory>();
  const auto directory = entry;
  const std::uint64_t mine = ++directory->wanted;
  directory->moved.wait(lock, [&] { return directory->synced >= mine || !directory->busy; });
  if (directory->synced >= mine) return {};
  directory->busy = true;
  const std::uint64_t upto = directory->wanted;
  lock.unlock();
  const bool synced = ::fsync(fd) == 0;
  const int why = errno;
  lock.lock();
  directory->busy = false;
  // A failed sync covers no caller: the others each try by their own descriptor, and get the same error.
  if (synced) directory->synced = upto;
  directory->moved.notify_all();
  if (directory->wanted == directory->synced) directories_.erase(key);
  if (!synced) return fail_errno("fsync", why);
  return {};
}

}  // namespace pen::mailbox
