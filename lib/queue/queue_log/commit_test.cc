// The lanes: which batch waits for which when several are in hand.
#include "lib/queue/queue_log/queue_fixture.h"

using namespace pen;
using namespace pen::queue_log;

namespace {

struct Lanes : Queue {
  Lanes() {
    recover();
    accept(envelope("first"));
    log->commits().flush();
    commit();
  }
  Batch next() {
    auto batch = log->commits().next_batch();
    BOOST_REQUIRE(batch.has_value());
    return *std::move(batch);
  }
  void end(Batch batch) {
    auto executed = batch.execute(disk);
    BOOST_REQUIRE(log->commits().complete(std::move(batch), std::move(executed)).has_value());
  }
  Ticket append(const std::string& id) {
    auto a = log->append(envelope(id));
    BOOST_REQUIRE(a.has_value());
    return a->ticket;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(queue_log)

BOOST_FIXTURE_TEST_CASE(a_save_of_positions_holds_up_no_mail, Lanes) {
  const auto saved = log->commits().last_save();
  log->commits().save_positions();
  Batch save = next();
  BOOST_TEST(save.covers() == 0u);
  const Ticket ticket = append("second");
  end(next());
  BOOST_TEST(log->commits().committed() == ticket);
  BOOST_TEST(log->commits().last_save() == saved);
  end(std::move(save));
  BOOST_TEST(log->commits().last_save() == saved);
  end(next());
  BOOST_TEST(log->commits().last_save() == saved + 1);
  BOOST_TEST(!log->commits().next_batch().has_value());
}

BOOST_FIXTURE_TEST_CASE(positions_wait_for_the_journal_they_were_taken_with, Lanes) {
  const auto saved = log->commits().last_save();
  const Ticket ticket = append("second");
  Batch mail = next();
  log->commits().save_positions();
  end(next());
  BOOST_TEST(!log->commits().next_batch().has_value());  // the mail is not durable
  end(std::move(mail));
  BOOST_TEST(log->commits().committed() == ticket);
  BOOST_TEST(log->commits().last_save() == saved);
  end(next());
  BOOST_TEST(log->commits().last_save() == saved + 1);
}

BOOST_FIXTURE_TEST_CASE(a_commit_that_is_done_before_an_earlier_one_acknowledges_nothing, Lanes) {
  const Ticket before = log->commits().committed();
  append("second");
  Batch earlier = next();
  const Ticket ticket = append("third");
  Batch later = next();
  end(std::move(later));
  BOOST_TEST(log->commits().committed() == before);
  end(std::move(earlier));
  BOOST_TEST(log->commits().committed() == ticket);
}

BOOST_FIXTURE_TEST_CASE(few_messages_have_a_sync_each_and_many_share_them, Lanes) {
  int serial = 0;
  const auto append_some = [&](int count) {
    for (int i = 0; i < count; ++i) append("m" + std::to_string(serial++));
  };
  append_some(15);
  Batch few = next();
  append_some(3);  // a quarter of the 15, rounded down
  Batch beside = next();
  append_some(19);
  BOOST_TEST(!log->commits().next_batch().has_value());
  append_some(1);
  Batch group = next();
  append_some(1);
  BOOST_TEST(!log->commits().next_batch().has_value());
  end(std::move(few));
  end(std::move(beside));
  // 20 are under way: one more waits for them.
  BOOST_TEST(!log->commits().next_batch().has_value());
  end(std::move(group));
  end(next());
  BOOST_TEST(!log->commits().next_batch().has_value());
}

BOOST_FIXTURE_TEST_CASE(no_more_commits_are_at_their_sync_than_there_are_threads_for, Lanes) {
  std::vector<Batch> hand;
  for (std::size_t i = 0; i < QueueLog::kJournalBatches; ++i) {
    append("m" + std::to_string(i));
    hand.push_back(next());
  }
  const Ticket last = append("last");
  BOOST_TEST(!log->commits().next_batch().has_value());
  for (Batch& batch : hand) end(std::move(batch));
  end(next());
  BOOST_TEST(log->commits().committed() == last);
}

BOOST_FIXTURE_TEST_CASE(after_a_failed_commit_none_beside_it_acknowledges, Lanes) {
  const Ticket before = log->commits().committed();
  append("second");
  Batch earlier = next();
  append("third");
  Batch later = next();
  BOOST_TEST(!log->commits().complete(std::move(later), fail_errno("sync", EIO)).has_value());
  auto executed = earlier.execute(disk);
  BOOST_TEST(!log->commits().complete(std::move(earlier), std::move(executed)).has_value());
  BOOST_TEST(log->commits().committed() == before);
}

BOOST_FIXTURE_TEST_CASE(a_segment_is_made_beside_the_mail, Lanes) {
  // Fill segments until the pool wants another one.
  std::optional<Batch> making;
  for (int i = 0; !making; ++i) {
    BOOST_REQUIRE_LT(i, 1000);
    append("m" + std::to_string(i));
    while (auto batch = log->commits().next_batch()) {
      if (batch->bytes() == 0 && batch->covers() == 0)
        making = std::move(batch);
      else
        end(*std::move(batch));
    }
  }
  const auto free = log->figures().segments_free;
  const Ticket ticket = append("beside");
  end(next());
  BOOST_TEST(log->commits().committed() == ticket);
  BOOST_TEST(log->figures().segments_free == free);
  end(*std::move(making));
  BOOST_TEST(log->figures().segments_free == free + 1);
}

BOOST_FIXTURE_TEST_CASE(a_message_on_hold_waits_for_both_logs, Lanes) {
  BOOST_REQUIRE(log->work().start(*due()).has_value());
  commit();
  const auto ticket = log->work().hold("first", envelope("first"));
  BOOST_REQUIRE(ticket.has_value());
  Batch both = next();
  while (both.covers() != *ticket) {  // the hold log's first segment came from the pool
    end(std::move(both));
    both = next();
  }
  append("second");
  BOOST_TEST(!log->commits().next_batch().has_value());
  BOOST_TEST(log->commits().committed() < *ticket);
  end(std::move(both));
  BOOST_TEST(log->commits().committed() == *ticket);
  commit();
  restart(FaultStorage::Cut::none);
  BOOST_TEST(due()->envelope.queue_id == "second");
}

BOOST_AUTO_TEST_SUITE_END()
