#include "lib/queue/spool/spool.h"
#include "lib/base/file_io.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "lib/queue/spool/breakage.h"
#include "lib/queue/spool/fault_files.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::spool;

namespace {

struct Place {
  testing::ScratchDir scratch;
  std::unique_ptr<Spool> spool = open();

  std::unique_ptr<Spool> open() {
    auto opened = Spool::open(scratch.file("bodies"));
    BOOST_REQUIRE(opened.has_value());
    return *std::move(opened);
  }
  BodyRef store(std::string_view id, std::string_view content) {
    auto lease = spool->lease(content.size());
    BOOST_REQUIRE(lease.has_value());
    BOOST_REQUIRE(::pwrite(lease->fd.get(), content.data(), content.size(), kContentOffset) ==
                  static_cast<ssize_t>(content.size()));
    auto ref = spool->take(lease->lease, id, content.size());
    BOOST_REQUIRE(ref.has_value());
    return *ref;
  }
  std::string read(BodyRef ref, std::size_t size) {
    auto fd = spool->open_to_read(ref);
    BOOST_REQUIRE(fd.has_value());
    std::string content(size, '\0');
    BOOST_REQUIRE(::pread(fd->get(), content.data(), size, kContentOffset) == static_cast<ssize_t>(size));
    BOOST_TEST(::pwrite(fd->get(), "x", 1, kContentOffset) == -1);  // read-only
    return content;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(spool)

BOOST_FIXTURE_TEST_CASE(content_is_read_back_as_it_was_written, Place) {
  const BodyRef ref = store("id1", "hello body");
  BOOST_TEST(read(ref, 10) == "hello body");
  auto fd = spool->open_to_read(ref);
  const auto header = Spool::read_header(fd->get());
  BOOST_REQUIRE(header.has_value() && header->has_value());
  BOOST_TEST((*header)->queue_id == "id1");
  BOOST_TEST((*header)->length == 10u);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_was_read_lately_is_not_opened_again, Place) {
  const BodyRef ref = store("id1", "hello body");
  BOOST_TEST(read(ref, 10) == "hello body");
  // Without its name the file could not be opened again.
  for (const auto& entry : std::filesystem::directory_iterator(scratch.file("bodies")))
    if (entry.path().filename().string().starts_with("body-")) std::filesystem::remove(entry.path());
  BOOST_TEST(read(ref, 10) == "hello body");
}

BOOST_FIXTURE_TEST_CASE(a_file_is_used_again_only_after_the_queue_log_says_so, Place) {
  const BodyRef first = store("id1", "one");
  spool->release(first, 5);
  BOOST_TEST(spool->reclaim(4) == 0u);
  const BodyRef second = store("id2", "two");
  BOOST_TEST(file_of(second) != file_of(first));
  BOOST_TEST(spool->reclaim(5) == 1u);
  const BodyRef third = store("id3", "three");
  BOOST_TEST(file_of(third) == file_of(first));
  BOOST_TEST(spool->figures().files == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_stale_reference_never_shows_another_messages_content, Place) {
  const BodyRef first = store("id1", "one");
  spool->release(first, 1);
  spool->reclaim(1);
  store("id2", "two");
  auto fd = spool->open_to_read(first);
  BOOST_REQUIRE(!fd.has_value());
  BOOST_TEST(fd.error().is(SpoolError::wrong_owner));
}

BOOST_FIXTURE_TEST_CASE(the_breakage_that_believes_any_use_shows_in_the_case_before_this, Place) {
  BreakageScope broken(Breakage::any_use_fits);
  const BodyRef first = store("id1", "one");
  spool->release(first, 1);
  spool->reclaim(1);
  store("id2", "two");
  BOOST_TEST(spool->open_to_read(first).has_value());
}

BOOST_AUTO_TEST_CASE(a_file_whose_name_could_not_be_synced_is_made_again_with_the_next_lease) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  disk.fail_names = true;
  BOOST_TEST(!spool->lease(10).has_value());
  BOOST_TEST(disk.file_count() == 0u);
  BOOST_TEST(spool->lease(10).has_value());
  BOOST_TEST(spool->figures().files == 1u);
}

/// The number of this process's open descriptors.
static std::size_t descriptors() {
  namespace fs = std::filesystem;
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

BOOST_AUTO_TEST_CASE(a_lease_whose_use_cannot_be_written_is_refused_and_its_file_leased_next) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  BOOST_TEST(spool->give_back(spool->lease(10)->lease));
  disk.fail_write = EIO;
  BOOST_TEST(!spool->lease(10).has_value());  // from here on the file is open
  const std::size_t before = descriptors();
  for (int i = 0; i < 50; ++i) {
    disk.fail_write = i % 2 == 0 ? EIO : ENOSPC;
    auto refused = spool->lease(10);
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST(refused.error().is_errno(i % 2 == 0 ? EIO : ENOSPC));
    BOOST_TEST(refused.error().is(SpoolError::no_space) == (i % 2 != 0));
    BOOST_TEST(spool->figures().leased == 0u);
    BOOST_TEST(spool->figures().free == 1u);
  }
  BOOST_TEST(descriptors() == before);
  auto lease = spool->lease(10);
  BOOST_REQUIRE(lease.has_value());
  BOOST_TEST(spool->figures().files == 1u);
  disk.write(lease->fd.get(), "content", kContentOffset);
  const auto body = spool->take(lease->lease, "id", 7);
  BOOST_REQUIRE(body.has_value());
  BOOST_TEST(spool->open_to_read(*body).has_value());
}

BOOST_AUTO_TEST_CASE(a_new_file_whose_use_cannot_be_written_is_kept_for_the_next_lease) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  for (int i = 0; i < 3; ++i) {
    disk.fail_write = EIO;
    BOOST_TEST(!spool->lease(10).has_value());
    BOOST_TEST(spool->figures().files == 1u);
    BOOST_TEST(disk.file_count() == 1u);
  }
  BOOST_TEST(spool->lease(10).has_value());
  BOOST_TEST(disk.file_count() == 1u);
}

BOOST_AUTO_TEST_CASE(a_body_whose_owner_cannot_be_written_stays_leased_with_its_content) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  auto other = spool->lease(10);
  disk.write(other->fd.get(), "other", kContentOffset);
  const auto kept = spool->take(other->lease, "id1", 5);
  auto lease = spool->lease(10);
  disk.write(lease->fd.get(), "content", kContentOffset);
  const std::size_t before = descriptors();
  for (const int why : {EIO, ENOSPC, EIO}) {
    disk.fail_write = why;
    auto refused = spool->take(lease->lease, "id2", 7);
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST(refused.error().is_errno(why));
    BOOST_TEST(spool->figures().leased == 1u);
    BOOST_TEST(spool->figures().used == 1u);
  }
  BOOST_TEST(descriptors() == before);
  // The next try succeeds, and all content is there: this message's and the previous one's.
  const auto body = spool->take(lease->lease, "id2", 7);
  BOOST_REQUIRE(body.has_value());
  for (const auto& [ref, id, content] : {std::tuple{*kept, "id1", "other"}, std::tuple{*body, "id2", "content"}}) {
    auto fd = spool->open_to_read(ref);
    BOOST_REQUIRE(fd.has_value());
    BOOST_TEST((*Spool::read_header(fd->get()))->queue_id == id);
    BOOST_TEST(*read_at(fd->get(), kContentOffset, std::string(content).size(), "read") == content);
  }
}

BOOST_AUTO_TEST_CASE(a_lease_that_could_not_be_taken_goes_back_and_its_file_is_leased_again) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  auto lease = spool->lease(10);
  disk.fail_write = EIO;
  BOOST_TEST(!spool->take(lease->lease, "id", 0).has_value());
  BOOST_TEST(spool->give_back(lease->lease));
  lease->fd = Fd();
  BOOST_TEST(spool->figures().leased == 0u);
  BOOST_TEST(spool->figures().free == 1u);
  BOOST_TEST(spool->lease(10).has_value());
  BOOST_TEST(spool->figures().files == 1u);
}

BOOST_AUTO_TEST_CASE(a_full_disk_refuses_what_does_not_fit_and_takes_what_does) {
  FaultDisk disk;
  disk.largest = 2 * kGrowth;
  auto spool = *Spool::open(disk.files(), 0);
  for (int i = 0; i < 3; ++i) {
    auto refused = spool->lease(3 * kGrowth);
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST(refused.error().is(SpoolError::no_space));
  }
  BOOST_TEST(spool->lease(kGrowth).has_value());
  BOOST_TEST(spool->figures().files == 1u);
  BOOST_TEST(spool->figures().leased == 1u);
}

BOOST_AUTO_TEST_CASE(a_lease_is_as_large_as_what_is_expected) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  const auto any = spool->lease(0);
  BOOST_TEST(disk.used() == kGrowth);
  const auto large = spool->lease(9'000'000);
  BOOST_TEST(disk.used() >= kGrowth + kContentOffset + 9'000'000);
  BOOST_TEST(disk.used() <= 2 * kGrowth + kContentOffset + 9'000'000);
  BOOST_TEST(!spool->lease(UINT64_MAX).has_value());  // more than any disk has
}

BOOST_AUTO_TEST_CASE(what_is_expected_and_does_not_come_takes_a_part_of_the_disk_however_often) {
  FaultDisk disk;
  disk.capacity = std::uint64_t{1} << 34U;
  auto spool = *Spool::open(disk.files(), 0);
  constexpr std::size_t kClients = 300;
  for (int wave = 0; wave < 3; ++wave) {
    std::vector<Spool::Lease> leases;
    while (leases.size() < kClients) leases.push_back(*spool->lease(50 * kGrowth));
    BOOST_TEST(disk.used() <= kClients * kGrowth + disk.capacity / 16);
    BOOST_TEST(disk.used() > disk.capacity / 17);  // and some get the size they asked for
    // Half of the clients hang up, half send a small message.
    for (std::size_t i = 0; i < kClients; ++i) {
      if (i % 2 == 0)
        BOOST_TEST(spool->give_back(leases[i].lease));
      else
        spool->release(*spool->take(leases[i].lease, "id", 1000), 1);
    }
    BOOST_TEST(spool->reclaim(1) == kClients / 2);
  }
  BOOST_TEST(spool->figures().files == kClients);
}

BOOST_AUTO_TEST_CASE(what_has_come_does_not_count_against_what_is_expected) {
  FaultDisk disk;
  disk.capacity = std::uint64_t{1} << 34U;
  auto spool = *Spool::open(disk.files(), 0);
  constexpr std::uint64_t kSize = 100 * kGrowth;
  for (std::uint64_t n = 1; n <= 40; ++n) {  // a quarter of the disk
    const auto lease = *spool->lease(kSize);
    BOOST_TEST_REQUIRE(disk.used() >= n * kSize);
    BOOST_TEST(spool->take(lease.lease, "id", kSize).has_value());
  }
}

BOOST_FIXTURE_TEST_CASE(only_a_lease_that_is_out_can_be_taken, Place) {
  BOOST_TEST(!spool->take(77, "id", 0).has_value());
  auto lease = spool->lease(10);
  BOOST_TEST(spool->give_back(lease->lease));
  BOOST_TEST(!spool->take(lease->lease, "id", 0).has_value());
  BOOST_TEST(!spool->give_back(lease->lease));
}

BOOST_FIXTURE_TEST_CASE(a_body_shorter_than_said_is_refused, Place) {
  auto lease = spool->lease(10);
  BOOST_TEST(!spool->take(lease->lease, "id", UINT64_MAX - 100).has_value());
  auto ref = spool->take(lease->lease, "id", 100 << 20);
  BOOST_REQUIRE(!ref.has_value());
  BOOST_TEST(ref.error().is(SpoolError::too_short));
}

BOOST_FIXTURE_TEST_CASE(after_a_restart_owned_files_stay_and_orphans_are_free, Place) {
  const BodyRef owned = store("id1", "keep");
  store("id2", "drop");
  auto lease = spool->lease(3);  // its receiver dies with us
  spool.reset();
  spool = open();
  BOOST_TEST(spool->figures().unknown == 3u);
  const BodyRef meanwhile = store("id3", "new");  // made before the orphan pass: a new file
  BOOST_TEST(spool->figures().files == 4u);
  BOOST_TEST(spool->referenced(owned));
  BOOST_TEST(!spool->referenced(BodyRef{99}));
  BOOST_TEST(spool->sweep() == 2u);
  BOOST_TEST(read(owned, 4) == "keep");
  BOOST_TEST(read(meanwhile, 3) == "new");
  BOOST_TEST(spool->figures().free == 2u);
}

BOOST_AUTO_TEST_CASE(whatever_the_umask_nobody_else_may_look_into_the_spool) {
  const mode_t before = ::umask(0);
  Place place;
  const BodyRef ref = place.store("id1", "one");
  ::umask(before);
  struct stat folder{}, file{};
  BOOST_REQUIRE(::stat(place.scratch.file("bodies").c_str(), &folder) == 0);
  auto fd = place.spool->open_to_read(ref);
  BOOST_REQUIRE(fd.has_value());
  BOOST_REQUIRE(::fstat(fd->get(), &file) == 0);
  BOOST_TEST((folder.st_mode & 0777) == 0700u);
  BOOST_TEST((file.st_mode & 0777) == 0600u);
}

BOOST_FIXTURE_TEST_CASE(links_among_the_files_lead_no_content_elsewhere, Place) {
  namespace fs = std::filesystem;
  store("id1", "one");
  spool.reset();
  const std::string victim = scratch.file("victim");
  std::ofstream(victim) << "somebody else's";
  const fs::path bodies = scratch.file("bodies");
  fs::create_symlink(victim, bodies / "body-00000002");
  fs::create_hard_link(victim, bodies / "body-00000003");
  fs::create_directory(bodies / "body-00000004");
  fs::create_symlink(scratch.file("not there"), bodies / "body-00000005");
  spool = open();
  BOOST_TEST(spool->sweep() == 5u);
  fs::create_symlink(victim, bodies / "body-00000006");  // at the name of the next new file
  std::vector<BodyRef> refs;
  for (int i = 0; i < 4; ++i) refs.push_back(store("id", "content of " + std::to_string(i)));
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(read(refs[static_cast<std::size_t>(i)], 12) == "content of " + std::to_string(i));
    const FileNumber file = file_of(refs[static_cast<std::size_t>(i)]);
    BOOST_TEST((file == 1 || file > 6));
  }
  std::string kept;
  std::getline(std::ifstream(victim), kept);
  BOOST_TEST((kept == "somebody else's"));
  BOOST_TEST(!fs::exists(scratch.file("not there")));
  // A file that a message refers to is not read through a link either.
  fs::rename(bodies / "body-00000007", scratch.file("moved"));
  fs::create_symlink(scratch.file("moved"), bodies / "body-00000007");
  spool.reset();
  spool = open();
  for (const BodyRef ref : refs) BOOST_TEST(spool->open_to_read(ref).has_value() == (file_of(ref) != 7));
}

/// The number of the file behind a lease, from its header.
static FileNumber number_of(const Spool::Lease& lease) {
  const auto header = Spool::read_header(lease.fd.get());
  BOOST_REQUIRE(header.has_value() && header->has_value());
  return (*header)->file;
}

BOOST_FIXTURE_TEST_CASE(a_file_is_not_leased_again_while_a_holder_of_before_the_restart_has_it, Place) {
  auto before = spool->lease(10);
  BOOST_REQUIRE(before.has_value());
  const FileNumber file = number_of(*before);
  spool.reset();  // qmgr dies; the receiver has a write under way
  spool = open();
  BOOST_TEST(spool->sweep() == 1u);
  auto meanwhile = spool->lease(10);
  BOOST_TEST(number_of(*meanwhile) != file);
  BOOST_TEST(::pwrite(before->fd.get(), "late", 4, kContentOffset) == 4);
  before->fd = Fd();  // the receiver closes its descriptor
  auto after = spool->lease(10);
  BOOST_TEST(number_of(*after) == file);
  BOOST_TEST(spool->figures().files == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_lease_given_back_with_a_write_under_way_stays_out_until_it_has_ended, Place) {
  auto given_up = spool->lease(10);
  const FileNumber file = number_of(*given_up);
  Fd under_way(::dup(given_up->fd.get()));
  given_up->fd = Fd();
  BOOST_TEST(spool->give_back(given_up->lease));
  auto other = spool->lease(10);
  BOOST_TEST(number_of(*other) != file);
  under_way = Fd();
  auto again = spool->lease(10);
  BOOST_TEST(number_of(*again) == file);
}

/// A reader that continues after its qmgr died, or after the conversation ended, sees no other message's content.
BOOST_FIXTURE_TEST_CASE(a_file_with_a_living_reader_is_not_leased_again, Place) {
  const BodyRef ref = store("id1", "hello body");
  auto reads_on = *spool->open_to_read(ref);
  for (int death = 0; death < 2; ++death) {
    spool.reset();
    spool = open();
    BOOST_TEST(spool->referenced(ref));
    spool->sweep();
    BOOST_TEST(read(ref, 10) == "hello body");  // the message is delivered again, and is over
  }
  spool->release(ref, 1);
  BOOST_TEST(spool->reclaim(1) == 1u);
  BOOST_TEST(file_of(store("id2", "other body")) != file_of(ref));
  BOOST_TEST((*Spool::read_header(reads_on.get()))->use == use_of(ref));
  reads_on = Fd();
  BOOST_TEST(number_of(*spool->lease(10)) == file_of(ref));
}

BOOST_FIXTURE_TEST_CASE(a_reader_that_keeps_its_descriptor_keeps_the_file_and_one_that_closed_it_does_not, Place) {
  const BodyRef ref = store("id1", "hello body");
  (*spool->open_to_read(ref)).reset();
  spool->release(ref, 1);
  spool->reclaim(1);
  const BodyRef next = store("id2", "other body");
  BOOST_TEST(file_of(next) == file_of(ref));
  const auto kept = *spool->open_to_read(next);
  spool->release(next, 2);
  spool->reclaim(2);
  const BodyRef third = store("id3", "third body");
  BOOST_TEST(file_of(third) != file_of(ref));
  const auto tool = *spool->open_apart(third);
  spool->release(third, 3);
  spool->reclaim(3);
  BOOST_TEST(number_of(*spool->lease(10)) != file_of(third));
}

/// A receiver or a delivery program that has been taken over.
BOOST_FIXTURE_TEST_CASE(whoever_keeps_a_copy_sees_and_changes_no_other_message, Place) {
  enum class Keeps { writes, unlocked, maps, reads, reads_unlocked };
  for (const Keeps how : {Keeps::writes, Keeps::unlocked, Keeps::maps, Keeps::reads, Keeps::reads_unlocked}) {
    auto lease = *spool->lease(10);
    BOOST_REQUIRE(::pwrite(lease.fd.get(), "mine", 4, kContentOffset) == 4);
    Fd copy(::dup(lease.fd.get()));
    void* map = MAP_FAILED;
    if (how == Keeps::maps) {
      map = ::mmap(nullptr, 2 * kContentOffset, PROT_READ | PROT_WRITE, MAP_SHARED, lease.fd.get(), 0);
      BOOST_REQUIRE(map != MAP_FAILED);
    }
    if (how == Keeps::unlocked) ::flock(copy.get(), LOCK_UN);
    lease.fd.reset();
    const BodyRef ref = *spool->take(lease.lease, "id1", 4);
    if (how == Keeps::reads || how == Keeps::reads_unlocked) copy = *spool->open_to_read(ref);
    if (how == Keeps::reads_unlocked) ::flock(copy.get(), LOCK_UN);
    if (how == Keeps::maps) copy.reset();
    spool->release(ref, 1);
    spool->reclaim(1);
    BOOST_TEST(file_of(store("id2", "yours")) != file_of(ref), static_cast<int>(how));
    if (how == Keeps::maps) ::munmap(map, 2 * kContentOffset);
  }
}

/// Pages of a file in a pipe are the file's own, and hold no file open.
BOOST_FIXTURE_TEST_CASE(whoever_keeps_pages_in_a_pipe_sees_no_other_message, Place) {
  constexpr std::size_t kAll = 2 * kGrowth;
  auto lease = *spool->lease(10);
  const FileNumber file = number_of(lease);
  // Somewhat more than a whole number of pages.
  const std::string mine(kGrowth + 100, 'm');
  BOOST_REQUIRE(::pwrite(lease.fd.get(), mine.data(), mine.size(), kContentOffset) ==
                static_cast<ssize_t>(mine.size()));
  int pipe[2];
  BOOST_REQUIRE(::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) == 0);
  const Fd out(pipe[0]), in(pipe[1]);
  const bool holds_all = ::fcntl(in.get(), F_SETPIPE_SZ, static_cast<int>(kAll)) >= static_cast<int>(kAll);
  off_t from = holds_all ? 0 : static_cast<off_t>(kGrowth);
  const off_t began = from;
  while (::splice(lease.fd.get(), &from, in.get(), nullptr, kAll, SPLICE_F_NONBLOCK) > 0) {
  }
  BOOST_REQUIRE(from > began);
  lease.fd.reset();
  spool->give_back(lease.lease);
  lease = *spool->lease(kAll);
  BOOST_REQUIRE(number_of(lease) == file);
  const std::string yours(kAll - kContentOffset, 'y');
  BOOST_REQUIRE(::pwrite(lease.fd.get(), yours.data(), yours.size(), kContentOffset) ==
                static_cast<ssize_t>(yours.size()));
  BOOST_REQUIRE(spool->take(lease.lease, "ID-OF-ANOTHER", yours.size()).has_value());
  std::string kept(kAll, '\0');
  const ssize_t n = ::read(out.get(), kept.data(), kept.size());
  BOOST_REQUIRE(n == static_cast<ssize_t>(from - began));
  BOOST_TEST(kept.contains('m'));
  BOOST_TEST(!kept.contains('y'));
  BOOST_TEST(!kept.contains("ID-OF-ANOTHER"));
}

BOOST_FIXTURE_TEST_CASE(what_a_file_held_is_not_shown_to_the_holder_of_its_next_lease, Place) {
  for (const bool clears : {false, true}) {
    const BreakageScope broken(clears ? Breakage::none : Breakage::not_cleared);
    const BodyRef ref = store("id1", "a secret of somebody else's");
    spool->release(ref, 1);
    spool->reclaim(1);
    auto lease = *spool->lease(10);
    BOOST_REQUIRE(number_of(lease) == file_of(ref));
    std::string found(8, '?');
    BOOST_TEST(::pread(lease.fd.get(), found.data(), 8, kContentOffset) == 8);
    BOOST_TEST((found == (clears ? std::string(8, '\0') : "a secret")));
    struct stat st{};
    BOOST_TEST(::fstat(lease.fd.get(), &st) == 0);
    BOOST_TEST(st.st_size >= static_cast<off_t>(kGrowth));
    BOOST_TEST(st.st_blocks * 512 >= static_cast<off_t>(kGrowth));  // they stay its own
    spool->give_back(lease.lease);
  }
}

BOOST_AUTO_TEST_CASE(where_nobody_can_tell_who_has_a_file_open_each_lease_has_a_new_one) {
  FaultDisk disk;
  disk.cannot_tell = true;
  auto spool = *Spool::open(disk.files(), 0);
  std::vector<Fd> kept;
  for (int i = 0; i < 3; ++i) {
    auto lease = *spool->lease(10);
    disk.write(lease.fd.get(), "content", kContentOffset);
    for (const Fd& other : kept) BOOST_TEST(*read_at(other.get(), kContentOffset, 7, "read") != "content");
    const BodyRef ref = *spool->take(lease.lease, "id", 7);
    BOOST_TEST(file_of(ref) == 1u);
    disk.write(lease.fd.get(), "CHANGED", kContentOffset);
    kept.push_back(std::move(lease.fd));
    spool->release(ref, 1);
    spool->reclaim(1);
  }
}

BOOST_FIXTURE_TEST_CASE(the_breakage_that_leases_open_files_shows_in_the_use_of_the_file, Place) {
  BreakageScope broken(Breakage::leased_while_open);
  const BodyRef ref = store("id1", "hello body");
  auto fd = *spool->open_to_read(ref);
  BOOST_TEST((*Spool::read_header(fd.get()))->use == use_of(ref));
  spool->release(ref, 1);
  spool->reclaim(1);
  BOOST_REQUIRE(file_of(store("id2", "other body")) == file_of(ref));
  BOOST_TEST((*Spool::read_header(fd.get()))->use != use_of(ref));
}

/// A version that should be garbage may name a file that has another owner by now.
BOOST_FIXTURE_TEST_CASE(a_stale_reference_releases_no_file_of_another_message, Place) {
  const BodyRef first = store("id1", "one");
  spool->release(first, 1);
  spool->reclaim(1);
  const BodyRef second = store("id2", "two");
  BOOST_REQUIRE(file_of(second) == file_of(first));
  spool->release(first, 2);
  BOOST_TEST(spool->figures().used == 1u);
  for (const bool met : {false, true}) {
    spool.reset();
    spool = open();
    if (met) {
      BOOST_TEST(spool->referenced(first));  // the file itself was not asked yet
      BOOST_TEST(spool->referenced(second));
      BOOST_TEST(!spool->referenced(first));
    }
    spool->release(first, 1);
    BOOST_TEST(spool->figures().retiring == 0u);
    spool->release(second, 1);
    BOOST_TEST(spool->figures().retiring == 1u);
  }
}

BOOST_FIXTURE_TEST_CASE(when_many_files_are_held_a_new_one_is_made, Place) {
  std::vector<Spool::Lease> held;
  for (int i = 0; i < 20; ++i) held.push_back(*spool->lease(10));
  spool.reset();
  spool = open();
  spool->sweep();
  auto lease = spool->lease(10);
  BOOST_REQUIRE(lease.has_value());
  BOOST_TEST(number_of(*lease) == 21u);
  BOOST_TEST(spool->figures().free == 20u);
  held.clear();
  for (int i = 0; i < 20; ++i) BOOST_TEST(number_of(*spool->lease(10)) <= 20u);
}

BOOST_AUTO_TEST_CASE(files_of_a_burst_go_when_half_an_hour_did_without_them) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  SteadyTime now{};
  auto use = [&](std::size_t count) {
    std::vector<Spool::Lease> leases;
    for (std::size_t i = 0; i < count; ++i) leases.push_back(*spool->lease(10));
    for (const auto& lease : leases) BOOST_TEST(spool->give_back(lease.lease));
  };
  auto pass = [&](seconds time) {
    for (const SteadyTime end = now + time; now < end; now += seconds(10)) BOOST_TEST(spool->shrink(now).has_value());
  };
  use(100);
  pass(seconds(1000));
  BOOST_TEST(disk.file_count() == 100u);  // none are removed before the orphan pass, however late it is
  spool->sweep();
  use(100);
  pass(seconds(820));
  BOOST_TEST(disk.file_count() == 100u);
  use(30);
  pass(seconds(1500));
  BOOST_TEST(disk.file_count() == 30u);
  pass(seconds(2000));
  BOOST_TEST(disk.file_count() == Pool::kKeep);
  use(40);
  BOOST_TEST(disk.file_count() == 40u);
  BOOST_TEST(spool->figures().free == 40u);
}

BOOST_AUTO_TEST_CASE(so_many_leases_take_no_more_descriptors_than_the_receivers_have) {
  FaultDisk disk;
  auto spool = *Spool::open(disk.files(), 0);
  std::vector<Spool::Lease> leases;
  for (int i = 0; i < 300; ++i) leases.push_back(*spool->lease(10));
  std::vector<BodyRef> refs;
  for (const auto& lease : leases) {
    disk.write(lease.fd.get(), "content", kContentOffset);
    refs.push_back(*spool->take(lease.lease, "id", 7));
  }
  leases.clear();
  for (const BodyRef ref : refs) {
    auto fd = spool->open_to_read(ref);
    BOOST_TEST_REQUIRE(fd.has_value());
    spool->release(ref, 1);
  }
  BOOST_TEST(spool->reclaim(1) == 300u);
  for (int i = 0; i < 300; ++i) leases.push_back(*spool->lease(10));
  BOOST_TEST(spool->figures().files == 300u);
}

BOOST_FIXTURE_TEST_CASE(a_second_owner_of_the_directory_is_refused, Place) {
  BOOST_TEST(!Spool::open(scratch.file("bodies")).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
