#pragma once
/// Gives what only the queue manager may open to its account: queue log, spool, destination database.
///
/// Use:     PEN_TRY(change_owner(directory, "…/log", owners.queue, told));
/// Order:   the directory is root's alone first, then its files change hands, then it does. So nobody changes a name in
///          it meanwhile, and an owner that is right means that all is done: what is killed in between goes on with the
///          next start, in either direction.
/// Files:   regular ones, through descriptors that lead to the file itself. What has a second name, belongs to root or
///          is no regular file stays as it is, and is reported: the queue manager does not take it.
/// Not:     a process of the former account that has a file open keeps it open.
/// Thread:  before any is started. Blocks: some microseconds a file.
#include <functional>
#include <string>

#include "lib/base/fd.h"
#include "lib/base/result.h"
#include "lib/suite/service/setup.h"

namespace pen::master {

struct Moved {
  bool moved = false;  // something had to be done
  std::uint64_t files = 0;
  std::vector<std::string> left;  // names that stay as they are; the first kMostTold
  static constexpr std::size_t kMostTold = 10;
};

/// progress: called every few seconds with the number of files so far. Errors: errno of chown and its like.
Result<Moved> change_owner(const Fd& directory, const std::string& shown, const service::Account& to,
                           const std::function<void(std::uint64_t files)>& progress);

}  // namespace pen::master
