// From a trace to the scenario's metrics.
//
// Two sources, kept apart: events recorded by the program itself (which batch, which sample, from when to when, in which
// process), and the witness's own look at /proc (which processes exist, their masks, their memory, the use of /dev/shm).
// Nothing here reads an option: a metric says what happened, not what was asked for.

#include "suites/dataloader/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "suites/dataloader/sites.hpp"

namespace misfire::dataloader {
namespace {

constexpr MetricInfo table[] = {
    {"outcome", Unit::text, "how the subject ended: ok, failed, signal, timeout, memory_limit, error"},
    {"failure", Unit::text,
     "the workload's word for a failure that it noticed (worker_killed, no_space, ...); none when there was none"},
    {"worker_signal", Unit::count, "signal that ended a worker; 0 when none was ended by one"},
    {"shm_total_bytes", Unit::bytes, "size of the trial's /dev/shm, seen by the witness (largest)"},
    {"shm_used_fraction", Unit::fraction,
     "used part of /dev/shm, seen by the witness (largest), or at the moment of a worker's death"},
    {"worker_processes", Unit::count, "worker processes alive at once, counted by the witness in /proc"},
    {"worker_generations", Unit::ratio, "worker processes started for each worker slot, by process id"},
    {"epochs", Unit::count, "passes over the data that were begun"},
    {"batches", Unit::count, "batches delivered"},
    {"images_per_second", Unit::images_per_second, "samples delivered over the time of the run phase"},
    {"step_seconds", Unit::seconds, "median time from one delivery to the next within an epoch"},
    {"load_seconds", Unit::seconds, "median time to make one batch, wherever it was made"},
    {"device_seconds", Unit::seconds, "median time of one training step on the device"},
    {"step_over_longest", Unit::ratio,
     "median time from delivery to delivery over the longer of load and device, at least 1: above 1 they ran in turn"},
    {"data_wait_fraction", Unit::fraction, "time the consumer was blocked for a batch over the time in epochs"},
    {"longest_wait_seconds", Unit::seconds, "longest single wait for a batch"},
    {"consumer_load_fraction", Unit::fraction, "batches that the consumer's own thread made, over all that were begun"},
    {"overlap_fraction", Unit::fraction, "part of the device's busy time during which a batch was being made"},
    {"held_wait_fraction", Unit::fraction,
     "time the consumer waited although a finished batch was there, kept back by order, over the time in epochs"},
    {"longest_held_wait_over_load", Unit::ratio,
     "longest time within one wait that a finished batch was kept back by order, over the median time to make a batch"},
    {"batches_outstanding", Unit::count, "batches begun and not yet delivered (most at once)"},
    {"in_order_fraction", Unit::fraction, "batches delivered in the order of their numbers"},
    {"busy_max_over_mean", Unit::ratio, "busiest worker's loading time over the mean of all workers"},
    {"round_robin_fraction", Unit::fraction, "batches made by the worker that strict rotation would choose"},
    {"load_tail_ratio", Unit::ratio, "longest time to make a batch over the lower quartile"},
    {"batch_bytes_tail_ratio", Unit::ratio, "most compressed bytes read for one batch over the lower quartile"},
    {"first_batch_over_load", Unit::ratio,
     "first batch of a later epoch: time from the epoch's begin, over the median time to make a batch (median over epochs)"},
    {"sample_multiplicity_min", Unit::count, "times the least delivered sample of an epoch was delivered"},
    {"sample_multiplicity_max", Unit::count, "times the most delivered sample of an epoch was delivered"},
    {"shared_reads_fraction", Unit::fraction, "samples that more than one worker read, over all that were read"},
    {"idle_workers", Unit::count, "workers that started and delivered no batch"},
    {"shard_plan_faults", Unit::count, "copies of every sample beyond the first, plus workers that had nothing to do"},
    {"table_resident_bytes", Unit::bytes, "resident size of the sample table in the consumer"},
    {"table_private_fraction", Unit::ratio,
     "private dirty pages of the table in all workers, over its resident size in the consumer; 0 without a table"},
    {"worker_minor_faults", Unit::count, "pages that the kernel had to map or copy for the workers (at the last look)"},
    {"workers_rss_bytes", Unit::bytes, "resident memory of all workers together"},
    {"workers_private_bytes", Unit::bytes, "private dirty memory of all workers together"},
    {"consumer_growth_bytes", Unit::bytes, "private dirty memory that the consumer gained from the first look to the last"},
    {"subject_cpus_allowed", Unit::count, "CPUs in the consumer's affinity mask"},
    {"worker_cpus_fraction", Unit::fraction,
     "distinct CPUs that the loading processes may use, over the fewer of their number and the machine's CPUs"},
    {"workers_within_mask_fraction", Unit::fraction, "workers whose CPU mask lies within the consumer's"},
    {"involuntary_switches_per_second", Unit::ratio,
     "involuntary context switches of the workers for each second of their CPU time"},
    {"remote_page_fraction", Unit::fraction, "resident pages of the batch memory on another NUMA node than the worker's CPUs"},
    {"bytes_read", Unit::bytes, "compressed bytes that were read"},
    {"bad_samples", Unit::count, "samples that could not be decoded"},
    {"lost_events", Unit::count, "events that the recorder had to drop"},
};

struct Span {
  std::int64_t begin = 0, end = 0;
  std::uint32_t tag = 0;
  std::int32_t pid = 0, tid = 0;
  bool closed = false;
  double seconds() const { return static_cast<double>(end - begin) * 1e-9; }
};

double middle(std::vector<double> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 == 1) return *half;
  return (*half + *std::max_element(values.begin(), half)) / 2;
}

/// The trace cut into spans and samples, each by site.
class Timeline {
 public:
  explicit Timeline(const Trace& trace) {
    std::map<std::tuple<std::uint16_t, std::int32_t, std::uint32_t>, std::size_t> open;
    for (const Event& event : trace.events) {
      last_ns = std::max(last_ns, event.monotonic_ns);
      const auto key = std::make_tuple(event.site, event.tid, event.tag);
      if (event.kind == EventKind::begin) {
        auto& list = spans_[event.site];
        open[key] = list.size();
        list.push_back({event.monotonic_ns, event.monotonic_ns, event.tag, event.pid, event.tid, false});
      } else if (event.kind == EventKind::end) {
        const auto found = open.find(key);
        if (found == open.end()) continue;  // its begin lies before the run phase
        Span& span = spans_[event.site][found->second];
        span.end = event.monotonic_ns;
        span.closed = true;
        open.erase(found);
      } else {
        points_[event.site].push_back(&event);
      }
    }
    // A span that never ended (the process died in it) lasts as long as the trace.
    for (const auto& [key, index] : open) spans_[std::get<0>(key)][index].end = last_ns;
  }
  const std::vector<Span>& spans(const Site& site) { return spans_[site.id]; }
  const std::vector<const Event*>& points(const Site& site) { return points_[site.id]; }
  std::vector<double> lengths(const Site& site) {
    std::vector<double> result;
    for (const Span& span : spans(site))
      if (span.closed) result.push_back(span.seconds());
    return result;
  }
  std::int64_t last_ns = 0;

 private:
  std::map<std::uint16_t, std::vector<Span>> spans_;
  std::map<std::uint16_t, std::vector<const Event*>> points_;
};

/// Length covered by the union of intervals; sorts its argument.
std::vector<std::pair<std::int64_t, std::int64_t>> merged(std::vector<std::pair<std::int64_t, std::int64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  for (const auto& interval : intervals) {
    if (!result.empty() && interval.first <= result.back().second)
      result.back().second = std::max(result.back().second, interval.second);
    else
      result.push_back(interval);
  }
  return result;
}

std::int64_t overlap(const std::pair<std::int64_t, std::int64_t>& span,
                     const std::vector<std::pair<std::int64_t, std::int64_t>>& cover) {
  std::int64_t sum = 0;
  for (const auto& [begin, end] : cover)
    sum += std::max<std::int64_t>(0, std::min(end, span.second) - std::max(begin, span.first));
  return sum;
}

/// Collects metrics and reasons for those that are missing.
class Sheet {
 public:
  Sheet(std::vector<Metric>& metrics, std::vector<std::pair<std::string, std::string>>& missing)
      : metrics_(metrics), missing_(missing) {}
  void number(std::string_view name, double value) { put(name, value); }
  void text(std::string_view name, std::string value) { put(name, std::move(value)); }
  void without(std::string_view name, std::string_view why) { missing_.emplace_back(name, why); }

 private:
  void put(std::string_view name, std::variant<double, std::string> value) {
    const auto info =
        std::find_if(std::begin(table), std::end(table), [&](const MetricInfo& entry) { return entry.name == name; });
    MISFIRE_ASSERT(info != std::end(table));
    metrics_.push_back({std::string(name), info->unit, std::move(value)});
  }
  std::vector<Metric>& metrics_;
  std::vector<std::pair<std::string, std::string>>& missing_;
};

/// Who loads: worker processes by their start marks, and threads of the consumer.
struct Loaders {
  std::set<std::int32_t> worker_pids;                   ///< processes other than the consumer
  std::map<std::uint32_t, std::set<std::int32_t>> ids;  ///< worker slot -> thread ids that filled it over time
};

Loaders find_loaders(Timeline& timeline, int consumer) {
  Loaders loaders;
  for (const Event* event : timeline.points(site::worker_start)) {
    if (event->pid != consumer) loaders.worker_pids.insert(event->pid);
    loaders.ids[event->tag].insert(event->tid);
  }
  return loaders;
}

void pace(Timeline& timeline, Sheet& sheet) {
  const auto& epochs = timeline.spans(site::epoch);
  double in_epochs = 0;
  for (const Span& epoch : epochs) in_epochs += epoch.seconds();
  sheet.number("epochs", static_cast<double>(epochs.size()));

  std::vector<const Span*> waits;
  for (const Span& wait : timeline.spans(site::wait))
    if (wait.closed) waits.push_back(&wait);
  const auto& delivered = timeline.points(site::delivered);
  const auto& made_by = timeline.points(site::made_by);
  sheet.number("batches", static_cast<double>(made_by.size()));

  if (in_epochs > 0) {
    sheet.number("images_per_second", static_cast<double>(delivered.size()) / in_epochs);
    double blocked = 0, longest = 0;
    for (const Span& wait : timeline.spans(site::wait)) {
      blocked += wait.seconds();
      longest = std::max(longest, wait.seconds());
    }
    sheet.number("data_wait_fraction", std::min(1.0, blocked / in_epochs));
    sheet.number("longest_wait_seconds", longest);
  } else {
    for (const auto name : {"images_per_second", "data_wait_fraction", "longest_wait_seconds"})
      sheet.without(name, "no epoch was begun");
  }

  std::vector<double> steps;
  for (std::size_t i = 1; i < waits.size(); ++i) {
    const bool same_epoch = std::any_of(epochs.begin(), epochs.end(), [&](const Span& epoch) {
      return epoch.begin <= waits[i - 1]->end && waits[i]->end <= epoch.end;
    });
    if (same_epoch) steps.push_back(static_cast<double>(waits[i]->end - waits[i - 1]->end) * 1e-9);
  }
  const auto loads = timeline.lengths(site::load);
  const auto device = timeline.lengths(site::device);
  if (steps.empty() || loads.empty()) {
    for (const auto name : {"step_seconds", "step_over_longest"})
      sheet.without(name, "fewer than two batches were delivered in an epoch");
  } else {
    sheet.number("step_seconds", middle(steps));
    sheet.number("step_over_longest",
                 std::max(1.0, middle(steps) / std::max(middle(loads), device.empty() ? 0 : middle(device))));
  }
  if (loads.empty()) {
    sheet.without("load_seconds", "no batch was finished");
    sheet.without("load_tail_ratio", "no batch was finished");
  } else {
    const double typical = middle(loads);
    sheet.number("load_seconds", typical);
    std::vector<double> sorted = loads;
    std::sort(sorted.begin(), sorted.end());
    sheet.number("load_tail_ratio", sorted.back() / sorted[(sorted.size() - 1) / 4]);
  }
  if (device.empty())
    sheet.without("device_seconds", "no training step was run");
  else
    sheet.number("device_seconds", middle(device));

  // First batch of the later epochs.
  std::vector<double> firsts;
  for (std::size_t e = 1; e < epochs.size(); ++e) {
    for (const Span* wait : waits)
      if (wait->end >= epochs[e].begin && wait->end <= epochs[e].end) {
        firsts.push_back(static_cast<double>(wait->end - epochs[e].begin) * 1e-9);
        break;
      }
  }
  if (firsts.empty() || loads.empty())
    sheet.without("first_batch_over_load", "needs two epochs with a batch each");
  else
    sheet.number("first_batch_over_load", middle(firsts) / middle(loads));

  double bytes = 0;
  std::vector<double> batch_bytes;
  for (const Event* event : timeline.points(site::bytes)) {
    bytes += event->value;
    batch_bytes.push_back(event->value);
  }
  std::sort(batch_bytes.begin(), batch_bytes.end());
  if (batch_bytes.empty() || batch_bytes[(batch_bytes.size() - 1) / 4] <= 0)
    sheet.without("batch_bytes_tail_ratio", "no batch was made");
  else
    sheet.number("batch_bytes_tail_ratio", batch_bytes.back() / batch_bytes[(batch_bytes.size() - 1) / 4]);
  sheet.number("bytes_read", bytes);
  sheet.number("bad_samples", static_cast<double>(timeline.points(site::bad_sample).size()));
}

void overlap_and_place(Timeline& timeline, int consumer, std::int32_t consumer_tid, Sheet& sheet) {
  const auto& loads = timeline.spans(site::load);
  if (loads.empty()) {
    sheet.without("consumer_load_fraction", "no batch was begun");
  } else {
    const auto own = std::count_if(loads.begin(), loads.end(),
                                   [&](const Span& load) { return load.pid == consumer && load.tid == consumer_tid; });
    sheet.number("consumer_load_fraction", static_cast<double>(own) / static_cast<double>(loads.size()));
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> loading;
  for (const Span& load : loads) loading.emplace_back(load.begin, load.end);
  loading = merged(std::move(loading));
  std::int64_t device = 0, both = 0;
  for (const Span& step : timeline.spans(site::device)) {
    if (!step.closed) continue;
    device += step.end - step.begin;
    both += overlap({step.begin, step.end}, loading);
  }
  if (device > 0)
    sheet.number("overlap_fraction", static_cast<double>(both) / static_cast<double>(device));
  else
    sheet.without("overlap_fraction", "no training step was run");
}

/// Order of delivery and who made what.
void order(Timeline& timeline, const Loaders& loaders, Sheet& sheet) {
  // Delivery time of each batch, and when it was finished.
  std::map<std::uint32_t, std::int64_t> finished;
  for (const Span& load : timeline.spans(site::load))
    if (load.closed) finished[load.tag] = load.end;
  std::map<std::uint32_t, std::int64_t> delivered_at;
  std::vector<std::uint32_t> sequence;
  for (const Event* event : timeline.points(site::made_by)) {
    delivered_at[event->tag] = event->monotonic_ns;
    sequence.push_back(event->tag);
  }

  double in_epochs = 0;
  for (const Span& epoch : timeline.spans(site::epoch)) in_epochs += epoch.seconds();
  if (in_epochs > 0) {
    // A batch is held from its finish to its delivery. While the consumer waits for another one in that time, order costs.
    // The hand-over itself takes a moment: the first 0.5 ms after the finish are not counted. Nor is the time until every worker
    // of an epoch has finished a batch: until then it is a worker's start that is waited for, not order.
    std::map<std::int64_t, std::int64_t> all_started;  // epoch's begin -> then
    for (const Span& epoch : timeline.spans(site::epoch)) {
      std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> first;
      for (const Span& load : timeline.spans(site::load))
        if (load.closed && load.end >= epoch.begin && load.begin <= epoch.end) {
          auto& when = first.try_emplace({load.pid, load.tid}, load.end).first->second;
          when = std::min(when, load.end);
        }
      std::int64_t last = epoch.begin;
      for (const auto& [worker, when] : first) last = std::max(last, when);
      all_started[epoch.begin] = last;
    }
    constexpr std::int64_t hand_over_ns = 500'000;
    std::int64_t held = 0, longest = 0;
    for (const Span& wait : timeline.spans(site::wait)) {
      std::vector<std::pair<std::int64_t, std::int64_t>> there;
      for (const auto& [batch, when] : finished) {
        const auto found = delivered_at.find(batch);
        const std::int64_t until = found == delivered_at.end() ? timeline.last_ns : found->second;
        if (until > wait.end && when + hand_over_ns < wait.end) there.emplace_back(when + hand_over_ns, until);
      }
      const auto epoch = all_started.upper_bound(wait.begin);
      const std::int64_t from = epoch == all_started.begin() ? wait.begin : std::max(wait.begin, std::prev(epoch)->second);
      const std::int64_t here = from < wait.end ? overlap({from, wait.end}, merged(std::move(there))) : 0;
      held += here;
      longest = std::max(longest, here);
    }
    const auto loads = timeline.lengths(site::load);
    if (loads.empty())
      sheet.without("longest_held_wait_over_load", "no batch was finished");
    else
      sheet.number("longest_held_wait_over_load", static_cast<double>(longest) * 1e-9 / middle(loads));
    sheet.number("held_wait_fraction", std::min(1.0, static_cast<double>(held) * 1e-9 / in_epochs));
  } else {
    for (const auto name : {"held_wait_fraction", "longest_held_wait_over_load"}) sheet.without(name, "no epoch was begun");
  }

  std::vector<std::pair<std::int64_t, int>> changes;  // +1 when a batch is begun, -1 when it is delivered
  for (const Span& load : timeline.spans(site::load)) changes.emplace_back(load.begin, 1);
  for (const auto& [batch, when] : delivered_at) changes.emplace_back(when, -1);
  std::sort(changes.begin(), changes.end());
  int outstanding = 0, most_outstanding = 0;
  for (const auto& [when, change] : changes) most_outstanding = std::max(most_outstanding, outstanding += change);
  sheet.number("batches_outstanding", most_outstanding);

  if (sequence.size() >= 2) {
    std::size_t ascending = 0;
    for (std::size_t i = 1; i < sequence.size(); ++i) ascending += sequence[i] > sequence[i - 1];
    sheet.number("in_order_fraction", static_cast<double>(ascending) / static_cast<double>(sequence.size() - 1));
  } else {
    sheet.without("in_order_fraction", "fewer than two batches were delivered");
  }

  std::map<int, double> busy;  // worker slot -> seconds
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint32_t> slot_of;
  for (const Event* event : timeline.points(site::worker_start)) slot_of[{event->pid, event->tid}] = event->tag;
  for (const auto& [slot, ids] : loaders.ids) busy[static_cast<int>(slot)] = 0;
  for (const Span& load : timeline.spans(site::load)) {
    const auto found = slot_of.find({load.pid, load.tid});
    if (found != slot_of.end()) busy[static_cast<int>(found->second)] += load.seconds();
  }
  double sum = 0, most = 0;
  for (const auto& [slot, seconds] : busy) {
    sum += seconds;
    most = std::max(most, seconds);
  }
  if (sum > 0)
    sheet.number("busy_max_over_mean", most / (sum / static_cast<double>(busy.size())));
  else
    sheet.number("busy_max_over_mean", 1);  // nobody but the consumer loads: no imbalance between workers

  const auto& made_by = timeline.points(site::made_by);
  const double slots = static_cast<double>(loaders.ids.size());
  if (loaders.ids.empty() || made_by.empty()) {
    sheet.number("round_robin_fraction", 0);
    sheet.number("idle_workers", 0);
  } else {
    // Batch numbers run over the whole trial; rotation starts afresh in each epoch, at that epoch's first number.
    std::size_t rotating = 0;
    std::set<int> used;
    for (const Event* event : made_by) {
      std::uint32_t first = 0;
      for (const Span& epoch : timeline.spans(site::epoch)) {
        if (event->monotonic_ns < epoch.begin || event->monotonic_ns > epoch.end) continue;
        first = event->tag;
        for (const Event* other : made_by)
          if (other->monotonic_ns >= epoch.begin && other->monotonic_ns <= epoch.end) first = std::min(first, other->tag);
      }
      used.insert(static_cast<int>(event->value));
      rotating += static_cast<int>(event->value) == static_cast<int>(std::fmod(event->tag - first, slots));
    }
    sheet.number("round_robin_fraction", static_cast<double>(rotating) / static_cast<double>(made_by.size()));
    sheet.number(
        "idle_workers",
        std::max(0.0, slots - static_cast<double>(std::count_if(used.begin(), used.end(), [](int w) { return w >= 0; }))));
  }
}

/// How often each sample came in each epoch.
void multiplicity(Timeline& timeline, const Loaders& loaders, Sheet& sheet) {
  std::map<std::uint32_t, std::set<std::int32_t>> readers;
  for (const Span& read : timeline.spans(site::read)) readers[read.tag].insert(read.tid);
  if (readers.empty()) {
    sheet.without("shared_reads_fraction", "no sample was read");
  } else {
    const auto shared = std::count_if(readers.begin(), readers.end(), [](const auto& entry) { return entry.second.size() > 1; });
    sheet.number("shared_reads_fraction", static_cast<double>(shared) / static_cast<double>(readers.size()));
  }
  std::optional<double> least, greatest;
  for (const Span& epoch : timeline.spans(site::epoch)) {
    std::map<std::int64_t, double> times;
    for (const Event* event : timeline.points(site::delivered))
      if (event->monotonic_ns >= epoch.begin && event->monotonic_ns <= epoch.end) times[std::llround(event->value)] += 1;
    for (const auto& [sample, count] : times) {
      least = std::min(least.value_or(count), count);
      greatest = std::max(greatest.value_or(count), count);
    }
  }
  if (!least) {
    for (const auto name : {"sample_multiplicity_min", "sample_multiplicity_max"}) sheet.without(name, "no sample was delivered");
    sheet.number("shard_plan_faults", 0);  // nothing came at all: no copy and no idle worker was seen
    return;
  }
  sheet.number("sample_multiplicity_min", *least);
  sheet.number("sample_multiplicity_max", *greatest);
  std::set<int> used;
  for (const Event* event : timeline.points(site::made_by)) used.insert(static_cast<int>(event->value));
  used.erase(-1);
  const double idle = std::max(0.0, static_cast<double>(loaders.ids.size()) - static_cast<double>(used.size()));
  sheet.number("shard_plan_faults", *least - 1 + idle);
}

double region_bytes(const ProcessSnapshot& process, std::string_view name, std::uint64_t ProcessSnapshot::Region::*field) {
  double sum = 0;
  for (const auto& region : process.regions)
    if (region.name == name) sum += static_cast<double>(region.*field);
  return sum;
}

/// What the witness saw.
void witnessed(const Trace& trace, Timeline& timeline, const Loaders& loaders, Sheet& sheet) {
  double shm_total = 0, shm_used = 0, shm_at_death = -1;
  std::size_t most_workers = 0;
  std::set<int> cpus;
  std::set<int> loading_pids;
  double subject_cpus = -1;
  std::map<int, ProcessSnapshot> last;  // worker -> latest snapshot
  const ProcessSnapshot* first_consumer = nullptr;
  const ProcessSnapshot* last_consumer = nullptr;
  double table_resident = 0, table_private = 0, workers_rss = 0, workers_private = 0;
  bool looked = false;
  std::vector<int> consumer_cpus;
  double minor_faults = 0;
  std::uint64_t remote = 0, local = 0;
  bool nodes_known = false;
  std::set<std::size_t> nodes_seen;
  // In the trial's PID namespace nothing but the workload runs; a worker is a process that said so when it started.
  for (const Observation& seen : trace.observations) {
    if (seen.shm_total_bytes > 0) {
      shm_total = std::max(shm_total, static_cast<double>(seen.shm_total_bytes));
      const double used = static_cast<double>(seen.shm_used_bytes) / static_cast<double>(seen.shm_total_bytes);
      shm_used = std::max(shm_used, used);
      if (seen.label == "worker_died") shm_at_death = used;
    }
    std::size_t workers = 0;
    double resident = 0, dirty = 0, rss = 0, private_dirty = 0, faults = 0;
    for (const ProcessSnapshot& process : seen.processes) {
      if (process.pid == trace.subject_pid) {
        consumer_cpus = process.cpus_allowed;
        subject_cpus = static_cast<double>(process.cpus_allowed.size());
        if (!seen.label.empty()) {
          if (!first_consumer) first_consumer = &process;
          last_consumer = &process;
          resident = region_bytes(process, "table", &ProcessSnapshot::Region::rss_bytes);
        }
        if (loaders.worker_pids.empty()) cpus.insert(process.cpus_allowed.begin(), process.cpus_allowed.end());
        continue;
      }
      if (!loaders.worker_pids.contains(process.pid) || process.state == 'Z') continue;
      ++workers;
      loading_pids.insert(process.pid);
      last[process.pid] = process;
      if (!seen.label.empty()) {
        faults += static_cast<double>(process.minor_faults);
        rss += static_cast<double>(process.rss_bytes);
        private_dirty += static_cast<double>(process.private_dirty_bytes);
        dirty += region_bytes(process, "table", &ProcessSnapshot::Region::private_dirty_bytes);
        for (const auto& region : process.regions) {
          if (region.name != "batches" || region.pages_by_node.empty()) continue;
          nodes_known = true;
          for (std::size_t node = 0; node < region.pages_by_node.size(); ++node) {
            nodes_seen.insert(node);
            const bool allowed = std::find(process.mems_allowed.begin(), process.mems_allowed.end(), static_cast<int>(node)) !=
                                 process.mems_allowed.end();
            (allowed ? local : remote) += region.pages_by_node[node];
          }
        }
      }
    }
    most_workers = std::max(most_workers, workers);
    if (!seen.label.empty()) {
      looked = true;
      table_resident = std::max(table_resident, resident);
      table_private = std::max(table_private, dirty);
      minor_faults = std::max(minor_faults, faults);
      workers_rss = std::max(workers_rss, rss);
      workers_private = std::max(workers_private, private_dirty);
    }
  }
  for (const auto& [pid, process] : last) cpus.insert(process.cpus_allowed.begin(), process.cpus_allowed.end());

  // A worker ended by SIGBUS tells how full it was when the signal came; afterwards its own batch is gone.
  for (const Event* event : timeline.points(site::shm_at_fault)) shm_at_death = std::max(shm_at_death, event->value);

  if (shm_total > 0) {
    sheet.number("shm_total_bytes", shm_total);
    sheet.number("shm_used_fraction", shm_at_death >= 0 ? shm_at_death : shm_used);
  } else {
    for (const auto name : {"shm_total_bytes", "shm_used_fraction"}) sheet.without(name, "the witness could not read /dev/shm");
  }
  if (trace.observations.empty()) {
    for (const auto name : {"worker_processes", "subject_cpus_allowed", "worker_cpus_fraction"})
      sheet.without(name, "the witness saw no process");
  } else {
    sheet.number("worker_processes", static_cast<double>(most_workers));
    if (subject_cpus >= 0)
      sheet.number("subject_cpus_allowed", subject_cpus);
    else
      sheet.without("subject_cpus_allowed", "the witness did not see the subject");
  }
  std::size_t started = 0;
  for (const auto& [slot, ids] : loaders.ids) started += ids.size();
  sheet.number("worker_generations",
               loaders.ids.empty() ? 0 : static_cast<double>(started) / static_cast<double>(loaders.ids.size()));

  const Json* machine = nullptr;
  for (const auto& [name, value] : trace.notes)
    if (name == "machine_cpus") machine = &value;
  if (!cpus.empty() && machine) {
    // Processes of one moment, not of all generations.
    const double loading = std::max<double>(1, static_cast<double>(most_workers));
    const double wanted = std::min(loading, machine->as_double());
    sheet.number("worker_cpus_fraction", std::min(1.0, static_cast<double>(cpus.size()) / wanted));
  } else if (!trace.observations.empty()) {
    sheet.without("worker_cpus_fraction", "the witness saw no loading process");
  }

  const auto within = std::count_if(last.begin(), last.end(), [&](const auto& entry) {
    const auto& mask = entry.second.cpus_allowed;
    return std::includes(consumer_cpus.begin(), consumer_cpus.end(), mask.begin(), mask.end());
  });
  if (last.empty())
    sheet.without("workers_within_mask_fraction", "the witness saw no worker process");
  else
    sheet.number("workers_within_mask_fraction", static_cast<double>(within) / static_cast<double>(last.size()));

  double switches = 0, cpu = 0;
  for (const auto& [pid, process] : last) {
    switches += static_cast<double>(process.involuntary_switches);
    cpu += process.cpu_seconds;
  }
  if (cpu > 0)
    sheet.number("involuntary_switches_per_second", switches / cpu);
  else
    sheet.without("involuntary_switches_per_second", "no worker process used measurable CPU time");

  if (looked) {
    sheet.number("table_resident_bytes", table_resident);
    sheet.number("table_private_fraction", table_resident > 0 ? table_private / table_resident : 0);
    sheet.number("worker_minor_faults", minor_faults);
    sheet.number("workers_rss_bytes", workers_rss);
    sheet.number("workers_private_bytes", workers_private);
    sheet.number("consumer_growth_bytes", first_consumer && last_consumer
                                              ? static_cast<double>(last_consumer->private_dirty_bytes) -
                                                    static_cast<double>(first_consumer->private_dirty_bytes)
                                              : 0);
  } else {
    for (const auto name :
         {"table_resident_bytes", "worker_minor_faults", "workers_rss_bytes", "workers_private_bytes", "consumer_growth_bytes"})
      sheet.without(name, "the subject ended before the witness was asked to look");
    sheet.without("table_private_fraction", "the subject ended before the witness was asked to look");
  }
  if (nodes_known && nodes_seen.size() > 1)
    sheet.number("remote_page_fraction", static_cast<double>(remote) / std::max<double>(1, static_cast<double>(remote + local)));
  else
    sheet.without("remote_page_fraction", "this machine has one NUMA node: no page can be remote");
}

}  // namespace

std::span<const MetricInfo> metrics() { return table; }

std::vector<Metric> analyse(const Trace& trace, std::vector<std::pair<std::string, std::string>>& missing) {
  std::vector<Metric> result;
  Sheet sheet(result, missing);
  Timeline timeline(trace);
  const Loaders loaders = find_loaders(timeline, trace.subject_pid);

  sheet.text("outcome", trace.outcome.kind);
  sheet.text("failure", trace.outcome.failure.empty() ? "none" : trace.outcome.failure);
  double signal = trace.outcome.kind == "signal" ? trace.outcome.signal : 0;
  for (const Event* event : timeline.points(site::worker_died)) signal = std::max(signal, event->value);
  sheet.number("worker_signal", signal);
  sheet.number("lost_events", static_cast<double>(trace.dropped_events));

  const auto& epochs = timeline.spans(site::epoch);
  const std::int32_t consumer_tid = epochs.empty() ? trace.subject_pid : epochs.front().tid;
  pace(timeline, sheet);
  overlap_and_place(timeline, trace.subject_pid, consumer_tid, sheet);
  order(timeline, loaders, sheet);
  multiplicity(timeline, loaders, sheet);
  witnessed(trace, timeline, loaders, sheet);
  return result;
}

}  // namespace misfire::dataloader
