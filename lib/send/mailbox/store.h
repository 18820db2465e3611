#pragma once
/// Writes one message into a Maildir or an mbox. Blocks; runs as the current user, in a worker (worker.h).
///
/// Safety:  a path is a trusted base directory plus a relative part. Below the base no symbolic link is followed, and
///          mailboxes must be regular files with one link that belong to the current user: links planted in a shared
///          spool directory have no effect. In the recipient's own home (follow_links) a link to a directory is
///          followed if the link is the user's or root's and the directory the user's. A mailbox file is never a link
///          (as in Postfix's safe_open).
/// Maildir: tmp/ → write → fsync → link into new/ → fsync of new/. A crash leaves at most a file in tmp/.
/// mbox:    locked, appended, fsynced; after any failure cut back to its former length. Locks belong to the open
///          file, so that they work between threads too.
/// Result:  success only when the message is on stable storage.
/// Source:  Maildir (D. J. Bernstein's manual page), mailbox_delivery_lock, deliver_lock_attempts,
///          deliver_lock_delay, stale_lock_time, mailbox_size_limit, virtual_mailbox_limit.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/codec.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/mail/delivery_status.h"
#include "lib/send/mailbox/lock.h"

namespace pen::mailbox {

enum class Form : std::uint8_t { maildir, mbox };

struct Target {
  Form form = Form::maildir;
  std::string base;           // trusted directory, absolute; must exist
  std::string path;           // below base, no "..", empty only for a Maildir that is the base itself
  bool follow_links = false;  // below base, to directories of the current user
  // An mbox of another owner that the current user may write; with follow_links also a Maildir.
  bool any_owner = false;
  std::string shown;             // replaces the form's name in the status: "file: /x/y"
  std::uint64_t size_limit = 0;  // of the mailbox file (mbox) or of the message (Maildir); 0: none
  LockRules lock;
  PEN_FIELDS(form, base, path, follow_links, any_owner, shown, size_limit, lock)
};

struct Message {
  std::string sender;
  std::string from_line;   // mbox_from_line(): local time takes a lock of the C library, so it is made before a fork
  std::string fields;      // prepended_fields()
  std::uint64_t size = 0;  // bytes of content to come
  WallTime now{};
  std::string hostname;
  unsigned long long unique = 0, random = 0;
  PEN_FIELDS(sender, from_line, fields, size, now, hostname, unique, random)
};
/// Returns the next chunk of the content; empty view: the end. Fewer bytes than Message::size count as a failure.
using Content = std::function<Result<std::string_view>()>;
// CalledOff is asked before the mailbox is changed, too.

/// One of several messages for the same mbox.
struct MboxDelivery {
  const Message* message = nullptr;
  const Content* content = nullptr;
  const CalledOff* called_off = nullptr;
  mail::DeliveryStatus status = {};  // set by store_mbox()
};
/// Appends the messages one after the other, under one lock and with one sync; each can fail separately. target: an
/// mbox.
void store_mbox(const Target& target, std::span<MboxDelivery* const> deliveries);

using SyncDirectory = std::function<Result<void>(int fd)>;
/// sync: makes all earlier changes of the directory durable.
mail::DeliveryStatus store_maildir(const Target& target, const Message& message, const Content& content,
                                   const CalledOff& called_off, const SyncDirectory& sync);

/// One of the two for a single message. Fails permanently only if the cause will not go away by itself (full mailbox);
/// otherwise defers.
mail::DeliveryStatus store(
    const Target& target, const Message& message, const Content& content,
    const CalledOff& called_off = [] { return false; });

}  // namespace pen::mailbox
