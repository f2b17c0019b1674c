"""Train an LSTM language model with truncated backpropagation through time, and generate from it.

$ python lstm_lm.py --epochs 2 --compile
"""

import argparse
import math
import os
import random
import sys
import tempfile
import time

import torch
from torch import nn


class Dictionary:
    def __init__(self):
        self.word2idx = {}
        self.idx2word = []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]

    def __len__(self):
        return len(self.idx2word)


class Corpus:
    """A made-up language: a Markov chain over words."""

    def __init__(self, tokens, words=40, seed=0):
        self.dictionary = Dictionary()
        rng = random.Random(seed)
        names = [a + b for a in ("ba", "ku", "lo", "mi", "ze") for b in "nrstxvwy"][:words]
        follow = {name: rng.sample(names, 3) for name in names}
        self.train = self.tokenize(names[0], follow, rng, tokens)
        self.valid = self.tokenize(names[1], follow, rng, tokens // 8)
        self.test = self.tokenize(names[2], follow, rng, tokens // 8)

    def tokenize(self, word, follow, rng, count):
        ids = []
        while len(ids) < count:
            ids.append(self.dictionary.add_word(word))
            if len(ids) % 17 == 0:
                ids.append(self.dictionary.add_word("<eos>"))
            word = rng.choices(follow[word], weights=(7, 2, 1))[0]
        return torch.tensor(ids, dtype=torch.int64)


class RNNModel(nn.Module):
    """An encoder, a recurrent module, and a decoder."""

    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.5, tie_weights=False):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            if nhid != ninp:
                raise ValueError("When using the tied flag, nhid must be equal to emsize")
            self.decoder.weight = self.encoder.weight
        self.init_weights()
        self.rnn_type = rnn_type
        self.nhid = nhid
        self.nlayers = nlayers

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -initrange, initrange)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        output = self.drop(output)
        decoded = self.decoder(output)
        decoded = decoded.view(-1, self.ntoken)
        return nn.functional.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (
                weight.new_zeros(self.nlayers, bsz, self.nhid),
                weight.new_zeros(self.nlayers, bsz, self.nhid),
            )
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def get_batch(source, i, bptt):
    seq_len = min(bptt, len(source) - 1 - i)
    data = source[i : i + seq_len]
    target = source[i + 1 : i + 1 + seq_len].view(-1)
    return data, target


def evaluate(model, criterion, data_source, args):
    model.eval()
    total_loss = 0.0
    hidden = model.init_hidden(args.batch_size)
    with torch.no_grad():
        for i in range(0, data_source.size(0) - 1, args.bptt):
            data, targets = get_batch(data_source, i, args.bptt)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total_loss += len(data) * criterion(output, targets).item()
    return total_loss / (len(data_source) - 1)


class Clock:
    """Numbers the steps of all epochs, and times them."""

    def __init__(self):
        self.step = 0
        self.last = time.perf_counter()

    def tick(self):
        now = time.perf_counter()
        print(f"step {self.step}: {1000 * (now - self.last):.2f} ms", file=sys.stderr)
        self.step += 1
        self.last = time.perf_counter()


def train(model, criterion, train_data, lr, epoch, args, clock):
    model.train()
    total_loss = 0.0
    hidden = model.init_hidden(args.batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
        data, targets = get_batch(train_data, i, args.bptt)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
        clock.tick()
        if batch % args.log_interval == 0 and batch > 0:
            cur_loss = total_loss / args.log_interval
            print(
                f"| epoch {epoch:3d} | {batch:5d}/{len(train_data) // args.bptt:5d} batches "
                f"| lr {lr:02.2f} | loss {cur_loss:5.2f} | ppl {math.exp(cur_loss):8.2f}"
            )
            total_loss = 0.0


@torch.no_grad()
def generate(model, dictionary, words, temperature=1.0):
    model.eval()
    input = torch.zeros(1, 1, dtype=torch.long)
    hidden = model.init_hidden(1)
    said = []
    for _ in range(words):
        output, hidden = model(input, hidden)
        word_weights = output.squeeze().div(temperature).exp().cpu()
        word_idx = torch.multinomial(word_weights, 1)[0]
        input.fill_(word_idx)
        said.append(dictionary.idx2word[word_idx])
    return " ".join(said)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="LSTM", choices=["LSTM", "GRU"])
    parser.add_argument("--tokens", type=int, default=1600)
    parser.add_argument("--emsize", type=int, default=24)
    parser.add_argument("--nhid", type=int, default=24)
    parser.add_argument("--nlayers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=5.0)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--bptt", type=int, default=12)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--log-interval", type=int, default=5)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1111)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    corpus = Corpus(args.tokens)
    train_data = batchify(corpus.train, args.batch_size)
    val_data = batchify(corpus.valid, args.batch_size)
    test_data = batchify(corpus.test, args.batch_size)
    ntokens = len(corpus.dictionary)
    shape = args.emsize, args.nhid, args.nlayers, args.dropout, args.tied
    model = RNNModel(args.model, ntokens, *shape)
    if args.compile:
        import jitpkg

        model = jitpkg.compile(model)
    criterion = nn.NLLLoss()

    lr, best_val_loss = args.lr, None
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        save = os.path.join(folder, "model.pt")
        for epoch in range(1, args.epochs + 1):
            train(model, criterion, train_data, lr, epoch, args, clock)
            val_loss = evaluate(model, criterion, val_data, args)
            print("-" * 60)
            print(
                f"| end of epoch {epoch:3d} | valid loss {val_loss:5.2f} "
                f"| valid ppl {math.exp(val_loss):8.2f}"
            )
            print("-" * 60)
            if not best_val_loss or val_loss < best_val_loss:
                torch.save(model.state_dict(), save)
                best_val_loss = val_loss
            else:
                lr /= 4.0  # no improvement has been seen in the validation data set
        model.load_state_dict(torch.load(save))
    model.rnn.flatten_parameters()
    test_loss = evaluate(model, criterion, test_data, args)
    print(f"| End of training | test loss {test_loss:5.2f} | test ppl {math.exp(test_loss):8.2f}")
    print(generate(model, corpus.dictionary, args.words))


if __name__ == "__main__":
    main()
